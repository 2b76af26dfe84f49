"""What handlers share to answer: framed answers, and questions and answers that came up before."""
