"""Who is there: peer sampling, failure detection and the spreading of news. No input or output."""
