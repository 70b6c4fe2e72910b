"""Abbreviations written out, initialisms spelled. A full stop that also ends the sentence stays."""

from __future__ import annotations

import re

from ouzel.text._rules import Rule, one_of, rule

#: before a name or a number: the full stop never ends a sentence
_TITLES = {
    "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Dr.": "Doctor", "Prof.": "Professor", "Rev.": "Reverend",
    "Hon.": "Honorable", "Gov.": "Governor", "Sen.": "Senator", "Rep.": "Representative", "Gen.": "General",
    "Col.": "Colonel", "Maj.": "Major", "Capt.": "Captain", "Lt.": "Lieutenant", "Sgt.": "Sergeant",
    "Mt.": "Mount", "Ft.": "Fort", "St.": "Saint",
}  # fmt: skip
_BEFORE_NUMBERS = {"No.": "number", "no.": "number", "Nos.": "numbers", "Fig.": "figure", "fig.": "figure",
                   "Vol.": "volume", "vol.": "volume", "p.": "page", "pp.": "pages", "Ch.": "chapter", "ch.": "chapter",
                   "Sec.": "section", "est.": "established", "ca.": "circa", "c.": "circa"}  # fmt: skip
_ANYWHERE = {
    "e.g.": "for example", "E.g.": "For example", "i.e.": "that is", "I.e.": "That is", "etc.": "et cetera",
    "vs.": "versus", "cf.": "compare", "approx.": "approximately", "Approx.": "Approximately", "dept.": "department",
    "Dept.": "Department", "Inc.": "Incorporated", "Ltd.": "Limited", "Corp.": "Corporation", "Co.": "Company",
    "Jr.": "Junior", "Sr.": "Senior", "Ave.": "Avenue", "Blvd.": "Boulevard", "Rd.": "Road", "Bros.": "Brothers",
    "Ph.D.": "P H D", "B.C.": "B C", "A.D.": "A D", "P.S.": "P S", "a.k.a.": "A K A", "et al.": "et al",
    "a.m.": "A M", "p.m.": "P M",
}  # fmt: skip
_SPELLED = (
    "ABC ADHD AI AM API APIs BBC CEO CIA CNN CPU CPUs CV DIY DNA EU FAQ FBI FM GPU GPUs HTTP HTTPS ID IDs IMF IP IRS "
    "IT KV LED LLM MIT NBA NFL OECD PC PCs PDF PhD PM PR Q&A RPM SMS SQL TTS TV TVs UFO UK UN URL "
    "URLs US USA USB VIP VPN"
).split()


def _spell(match: re.Match[str]) -> str:
    word = match.group()
    many = word.endswith("s")
    return " ".join(word.removesuffix("s")).upper().replace("&", "and") + ("'s" if many else "")


def _written_out(match: re.Match[str]) -> str:
    return _ANYWHERE[match["short"]] + ("." if match["end"] is not None else "")


RULES: tuple[Rule, ...] = (
    rule(r"(?<=[a-z])\ St\.(?=\s*$|[,;]|\s+[a-z])", " Street"),
    rule(r"\b AT&T \b", "A T and T"),
    rule(rf"\b (?P<short>{one_of(_TITLES)}) (?=\s+[^\W\d_])", lambda m: _TITLES[m["short"]]),
    rule(rf"\b (?P<short>{one_of(_BEFORE_NUMBERS)}) (?=\s?\d)", lambda m: f"{_BEFORE_NUMBERS[m['short']]} "),
    rule(rf"(?<![\w.]) (?P<short>{one_of(_ANYWHERE)}) (?![\w.]) (?P<end>(?=\s*[\"')]*\s*$|\s+[\"'(]*[A-Z]))?",
         _written_out),
    rule(r"(?<![\w.]) (?:[A-Z]\.){2,} (?P<end>(?=\s*$))?",
         lambda m: " ".join(m.group().replace(".", "")) + ("." if m["end"] is not None else "")),
    rule(r"(?<![\w/]) w/o (?!\w)", "without", re.IGNORECASE),
    rule(r"(?<![\w/]) w/\ ? (?=\w)", "with ", re.IGNORECASE),
    rule(r"\b and/or \b", "and or", re.IGNORECASE),
    rule(rf"\b (?:{one_of(_SPELLED)}|[BCDFGHJKLMNPQRSTVWXZ]{{2,5}}) (?![^\W\d_]|')", _spell),
)  # fmt: skip
