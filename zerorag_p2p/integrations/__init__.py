"""Nodes as retrievers of LangChain, LlamaIndex and Haystack, and as tools of an MCP server.

Each module needs the package of that name; the package's extras install it (docs/integrations.md).
"""
