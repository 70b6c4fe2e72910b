"""The sentences that the voice learns from and is judged on.

Sources: WordNet's usage examples and the `fortunes` cookies (Debian packages `wordnet-base` and `fortunes`), plus
sentences made here for what those lack: numbers, dates, money, questions and an assistant's replies.

A held-out sentence shares neither its text nor its source entry (WordNet synset, fortune cookie, template) with the
training set. Settings are chosen on the development sentences, figures are taken on the test sentences.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from num2words import num2words

WORDNET = Path("/usr/share/wordnet")
FORTUNES = Path("/usr/share/games/fortunes")
PLAIN = re.compile(r"[A-Za-z ,.'!?;\-]{20,120}")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as the voice reads it (words only) and as a person would write it (`written`, may hold digits)."""

    text: str
    written: str
    entry: str
    source: str


def wordnet_sentences() -> list[Sentence]:
    """Usage examples of 20 to 120 plain letters; the entry is the synset's offset."""
    found = []
    for path in sorted(WORDNET.glob("data.*")):
        for line in path.read_text(errors="ignore").splitlines():
            gloss = line.partition("|")[2]
            for example in re.findall(r'"([^"]{20,120})"', gloss):
                if PLAIN.fullmatch(example):
                    text = example.strip().rstrip(",;").rstrip(".")
                    text = text[0].upper() + text[1:] + ("" if text[-1] in "!?" else ".")
                    found.append(Sentence(text, text, f"{path.suffix}:{line[:8]}", "wordnet"))
    return found


def fortune_sentences() -> list[Sentence]:
    """Sentences of 20 to 120 plain letters out of the cookies; the entry is the cookie."""
    found = []
    for path in sorted(FORTUNES.glob("*.u8")):
        for number, cookie in enumerate(path.read_text(errors="ignore").split("\n%")):
            for piece in re.split(r"(?<=[.!?]) ", re.sub(r"\s+", " ", cookie)):
                text = piece.strip()
                if PLAIN.fullmatch(text) and text[-1] in ".!?" and text[0].isupper():
                    found.append(Sentence(text, text, f"{path.name}:{number}", "fortune"))
    return found


THINGS = "apples books chairs people students birds miles minutes hours days weeks tickets boxes letters".split()
THINGS += "bottles cars trees rooms pages songs questions answers steps players houses dogs pounds meters".split()
NAMES = "Anna Peter Maria John Emma David Sarah James Laura Thomas Julia Robert Helen Michael Alice Daniel".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
PLACES = "London Paris Berlin Rome Madrid Boston Chicago Vienna Dublin Oslo Tokyo Sydney Toronto Denver".split()
TASKS = (
    "set a timer;play some music;find a good recipe;read the news;check the weather;write a short letter;"
    "turn off the lights;book a table;explain the idea;look up the address;make a list;call your brother;"
    "plan the trip;translate the sentence;remind you tomorrow;order more paper;open the garage door;"
    "compare the prices;summarize the article;solve the problem"
).split(";")
REPLIES = (
    "Sure, I can {task} for you.;Of course, let me {task} right away.;I am sorry, I could not {task} this time.;"
    "Would you like me to {task}, {name}?;Before I {task}, I need a little more information.;"
    "It usually takes {n} minutes to {task}.;Here is what I found when I tried to {task}.;"
    "Could you tell me why you want to {task}?;I will {task} on {day} at {time}.;Shall I {task} now or later?;"
    "The weather in {place} will be cloudy, with a high of {n} degrees.;{name} asked me to {task} before {day}.;"
    "Your next meeting with {name} is on {day} at {time}.;The train to {place} leaves at {time}.;"
    "What time does the flight from {place} arrive?;How many {things} did {name} bring to {place}?;"
    "There are {n} {things} left in the kitchen.;{name} bought {n} {things} for {money}.;"
    "The meeting is on {month} {nth}, {year}.;In {year}, the city had about {big} people.;"
    "It happened in {month} of {year}.;The bill comes to {money}, including the tip.;"
    "Nearly {percent} percent of the {things} were sold by {day}.;Chapter {n} begins on page {n2}.;"
    "My phone number ends with {d1} {d2} {d3} {d4}.;The answer is {n} point {d1} {d2}.;"
    "He was born on {month} {nth}, {year}, in {place}.;She ran {n} miles in {n2} minutes.;"
    "The room is {n} feet long and {n2} feet wide.;That is a great question, {name}.;"
    "Thank you for waiting, {name}, I have {n} new messages for you.;Who wrote the book that {name} was reading?;"
    "Where can I buy {n} {things} in {place}?;Do you know when {name} will come back from {place}?;"
    "The price went up from {money} to {money2}.;Turn left after {n} miles, then drive to {place}."
).split(";")


# Never in the training set.
TEST_REPLIES = (
    "I have added {task} to your list for {day}.;Good morning, {name}, you slept for almost eight hours.;"
    "Unfortunately the shop in {place} is closed until {day}.;Let me know if you need anything else today.;"
    "I did not quite catch that, could you say it again?;The fastest way to {place} is along the coast.;"
    "Your package from {place} should arrive on {day}.;{name} left a message while you were out.;"
    "That song was recorded in {place} a long time ago.;It looks like rain this afternoon, so take an umbrella.;"
    "Here is a short summary of what {name} said.;I could not find anyone called {name} in your contacts.;"
    "You asked me earlier to {task}, shall I go on?;There is nothing on your calendar for {day}.;"
    "My suggestion is to {task} first and rest afterwards."
).split(";")
TEST_NUMBERS = (
    "Only {n} of the {n2} seats were taken.;We paid {money} for {n} {things} in {place}.;"
    "Is it true that {name} turned {n} last {month}?;Set an alarm for {time} on {day}, please.;"
    "The tower in {place} was finished in {year}.;About {big} visitors came to {place} in {month}.;"
    "Which is longer, {n} miles or {n2} yards?;Please call me back at {time}, {name}.;"
    "My grandfather was born on {month} {nth}, {year}.;Add {n} and {n2}, and you have the result.;"
    "The battery is at {percent} percent.;Mix {n} spoons of sugar with {n2} grams of flour.;"
    "Did {name} really sell {n2} {things} before {month}?;It costs {money} now and {money2} after {day}.;"
    "Bus number {n2} to {place} leaves in {n} minutes."
).split(";")


def made_sentence(rng: random.Random, templates: list[str], source: str) -> Sentence:
    """One sentence from the templates, once in digits and once in words."""
    spoken: dict[str, str] = {}
    written: dict[str, str] = {}

    def both(key: str, words: str, digits: str) -> None:
        spoken[key], written[key] = words, digits

    def clock() -> tuple[str, str]:
        hour, minute = rng.randint(1, 12), rng.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50))
        words = num2words(hour) + (
            " o'clock" if not minute else (" oh five" if minute == 5 else f" {num2words(minute)}")
        )
        return words, f"{hour}:{minute:02d}"

    def money() -> tuple[str, str]:
        dollars, cents = rng.randint(2, 400), rng.choice((0, 0, 25, 50, 75, 99))
        words = f"{num2words(dollars)} dollars" + (f" and {num2words(cents)} cents" if cents else "")
        return words.replace(" and ", " ", 1) if dollars > 100 and not cents else words, f"${dollars}" + (
            f".{cents:02d}" if cents else ""
        )

    for key, top in (("n", 60), ("n2", 300), ("percent", 100), ("d1", 9), ("d2", 9), ("d3", 9), ("d4", 9)):
        value = rng.randint(2, top)
        both(key, num2words(value), str(value))
    year, day, big = rng.randint(1700, 2030), rng.randint(1, 28), rng.randint(11, 990) * rng.choice((100, 1000))
    both("year", num2words(year, to="year"), str(year))
    both("nth", num2words(day, to="ordinal"), str(day))
    both("big", num2words(big), f"{big:,}")
    both("time", *clock())
    both("money", *money())
    both("money2", *money())
    for key, options in (
        ("name", NAMES),
        ("month", MONTHS),
        ("day", DAYS),
        ("place", PLACES),
        ("task", TASKS),
        ("things", THINGS),
    ):
        choice = rng.choice(options)
        both(key, choice, choice)
    template = rng.choice(templates)
    text = template.format(**spoken)
    return Sentence(text[0].upper() + text[1:], template.format(**written), template, source)


def made_sentences(rng: random.Random, templates: list[str], source: str, count: int) -> list[Sentence]:
    """Different sentences, out of `count` attempts."""
    return list({s.text: s for s in (made_sentence(rng, templates, source) for _ in range(count))}.values())


def collect(seed: int = 0, made: int = 6000, held_out: int = 400) -> dict[str, list[Sentence]]:
    """All sentences by their use, `train`, `dev` and `test`, shuffled by the seed."""
    rng = random.Random(seed)
    by_text: dict[str, Sentence] = {}
    for sentence in wordnet_sentences() + fortune_sentences():
        by_text.setdefault(sentence.text, sentence)
    found = sorted(by_text.values(), key=lambda s: s.text)
    rng.shuffle(found)
    crafted = made_sentences(rng, REPLIES, "made", made)
    test, dev = found[: held_out // 2], found[held_out // 2 : held_out]
    entries = {s.entry for s in test + dev}
    train = [s for s in found[held_out:] if s.entry not in entries] + crafted[held_out // 2 :]
    rng.shuffle(train)
    test += made_sentences(rng, TEST_REPLIES, "reply", 200)[: held_out // 4]
    test += made_sentences(rng, TEST_NUMBERS, "number", 200)[: held_out // 4]
    return {"train": train, "dev": dev + crafted[: held_out // 2], "test": test}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for train.jsonl, dev.jsonl and test.jsonl")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, sentences in collect().items():
        lines = (json.dumps(asdict(s), ensure_ascii=False) for s in sentences)
        (args.out / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{name}: {len(sentences)} sentences")


if __name__ == "__main__":
    main()
