"""The server's face: REST and WebSocket speech, health, metrics and a demo page. It computes nothing itself."""
