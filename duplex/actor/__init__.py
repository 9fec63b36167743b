"""The asyncio shell of a session: mailbox, timer, effects."""
