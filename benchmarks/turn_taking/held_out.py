"""What is said in the held-out recordings, which no word list and no threshold was chosen by.

The texts were written before the words of `[unfinished]` were tried on anything, and their sounds were played to the models once that
was settled. Whoever changes the lists with these recordings in view writes new ones.
"""

BROKEN_OFF = (
    ("I am looking for a,", "birthday present for my father."),
    ("Could we meet on,", "Thursday after lunch?"),
    ("My phone number is seven four two,", "nine nine one three."),
    ("What is the difference between a crocodile and,", "an alligator?"),
    ("The reason I am calling is,", "that my parcel has not arrived."),
    ("Please write a message to my,", "neighbour about the noise."),
    ("I have lived in this city since,", "two thousand and twelve."),
    ("Well, um,", "I think I need some help."),
    ("We stayed in a small,", "hotel near the harbour."),
    ("Does this bus go,", "to the central station?"),
    ("When I was at,", "the doctor yesterday, he gave me some pills."),
    ("Play some music that,", "helps me to fall asleep."),
    ("The thing I like most about this place,", "is how quiet it is."),
    ("How much would it cost if,", "we stayed for another night?"),
)
"""What comes before a pause in the midst of a phrase, and what comes after it."""
COMPLETE = (
    ("I want to order a pizza,", "with mushrooms and olives."),
    ("Tell me about the history of Rome,", "but keep it short, please."),
    ("My daughter is seven years old,", "and she loves dinosaurs."),
    ("I bought a new bicycle last week,", "and now the brakes are squeaking."),
    ("Can you recommend a book,", "something that is not too long?"),
    ("I would prefer the morning,", "if that is possible."),
    ("There is a problem with my bill,", "because I was charged twice."),
    ("Let us go to the beach,", "or maybe to the lake."),
    ("We need five tickets,", "two adults and three children."),
    ("After we had finished dinner,", "we went for a long walk."),
    ("Because of the heavy rain,", "the match was cancelled."),
    ("Is the shop open today,", "or only on weekdays?"),
)
"""The same where what comes before the pause might be all."""
FINISHED = (
    "What time is it?", "Tell me about the ocean.", "Yes, please.", "No.", "How old are you?", "Where are you from?", "Thank you.",
    "What are you looking at?", "Turn it off.", "I don't know.", "Play some jazz.", "That sounds good.", "Who is it for?",
    "Set an alarm for six.", "What do you mean?", "I would love to.", "Not today.", "Call me later.", "Is it going to rain?",
    "Good morning.", "Why not?", "Can you help me?", "My name is Sarah.", "I think so.", "Tell me a joke.", "How does it work?",
    "Yes, I do.", "What is it made of?", "Start over.", "The second one.",
)  # fmt: skip
"""Short turns that are over."""
PAUSES_S = (0.3, 0.5, 0.8, 1.2)
