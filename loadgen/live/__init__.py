"""Concurrent talkers against a running server: `loadgen live`.

trace ─► run (who begins when) ─► crew (processes) ─► worker (the talkers of one process)
                                                        ├─ talker      pure: what to say when, what was heard
                                                        ├─ ear, player pure: how a client plays what arrives
                                                        ├─ impairment  pure: what the network does
                                                        └─ webrtc, websocket: the packets
rows ◄─ one per turn and per session ──► result (JSON) ──► loadgen.report (HTML, compare)
"""
