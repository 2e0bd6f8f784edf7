"""Finding peers that hold the answer: the walk and the state it reads. No input or output."""
