"""Media plane: WebRTC peers, the audio path, video sampling, Opus."""
