"""The vocabulary by which `postprocess.read.verdict` reads a verdict: word sets, no logic.

All in lower case, after folding (`postprocess.read.verdict_text`). A word belongs here because
answers of real models use it in that place; each set says what follows from membership.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


YES = _words("yes yeah yep yup")
NO = _words("no nope")
TRUTH = {"true": 1, "false": 0}
"""Read as a verdict directly behind a label only."""

SARCASM = re.compile(r"(?:non|un)?sarcas(?:m|tic)(?:ally)?\Z")
NEGATED_FORM = re.compile(r"(?:non|un)sarcas")

LABELS = _words(
    "answer answers verdict conclusion decision judgment judgement response output label "
    "prediction result classification assistant ans reply determination assessment evaluation "
    "boxed choice"
)
"""With a colon, a dash or an "is" behind them they announce the answer."""

OPENERS = _words(
    "sure okay ok well hmm hm oh ah um alright right so honestly overall and then therefore thus "
    "hence my the a an i i'd would have to say think believe answer sorry but definitely clearly "
    "certainly probably absolutely undoubtedly obviously surely likely most very simply just "
    "indeed ultimately finally actually wait clear definite resounding firm simple strong emphatic "
    "of course in short opinion conclusion text textbf mathrm final it's it is that's i'm afraid "
    "with go correct hard hell heck"
)
"""What may stand before a yes or no that still opens its sentence or follows its label."""

BARE = OPENERS | _words("it isn't not this is that sarcastic")
"""What a sentence may hold beside its yes or no and be nothing but a verdict."""

CLAUSE_STARTERS = _words(
    "it it's its this that that's the there there's because since as i i'm i'd i don't not isn't "
    "although though while but they he she we you these those given based due in and sir yes no "
    "here both nope neither nothing what"
)
"""A "no" before one of these, without a comma, is a verdict; before a noun it is a determiner."""

MEANINGS = _words("if unless otherwise when else or means denotes indicates represents stands only")
"""A yes or no before one of these is spoken about, not given ("Yes if ...", "Yes means ...")."""

INTRODUCERS = _words(
    "therefore thus hence so then consequently accordingly overall conclusion ultimately finally "
    "actually wait opinion short but yet"
)
"""A yes or no right behind one of these is a conclusion."""

SAYING = _words("say answer think believe conclude choose pick respond reply guess go")
FIRST_PERSON = _words("i i'd i'll i'm we we'd we'll let let's me my must")
"""Of these two a conclusion is made: "I would say no"."""

ADVERBS = _words(
    "a an definitely clearly probably simply most likely just indeed certainly definite clear "
    "resounding firm simple strong emphatic hard with for the word therefore thus also"
)
"""Passed over between an introducer and its yes or no."""

COPULAS = _words("is be was remains it's that's")
ARTICLES = _words("a an definite clear resounding firm simple strong emphatic definitive hard")

NAMED = _words("level score rating presence detection status label present detected found evident")
"""What may stand between "sarcasm" and the colon behind which its value stands."""

PARTICIPLES = _words("present detected found evident")
"""Of these "sarcasm" can be the subject: "Sarcasm detected: the author mocks the rain"."""

ABSENT = _words("0 zero none nil absent")
"""Behind "sarcasm:" these deny it. A degree ("low", "high", "3/10") decides nothing."""

EXPLAINING = _words(
    "the it it's its this that there because since as he she they while although given"
)
"""Behind "sarcastic:" these begin an explanation, and "sarcastic" is the answer."""

SURE_NOT = _words(
    "absolutely definitely certainly probably clearly obviously surely likely course afraid"
)
""""Definitely not.": with one of these before it, a "not" is a whole answer."""

NEGATORS = _words(
    "not no never neither nor without lack lacks lacking lacked devoid absence nothing none nobody "
    "hardly scarcely barely cannot non un free fails failing isnt doesnt dont cant wasnt arent far"
)
"""Beside every contraction in n't."""

DIRECT_NEGATORS = _words("no without lack lacks lacking lacked devoid absence free nothing zero")
"""These deny sarcasm without a verb of saying: "without any sarcasm"."""

HEDGES = _words(
    "if whether may might could perhaps maybe possibly potentially unless unclear unsure uncertain "
    "when depends what why how mean means imply implies were borderline supposedly allegedly "
    "hypothetically theoretically arguably people everyone someone somebody others often sometimes "
    "usually generally unlikely doubtful improbable questionable debatable possible possibility "
    "plausible conceivable chance chances odds hesitate hesitant reluctant tempting"
)
"""A clause with one of these decides nothing.

So does one that doubts or weighs how likely it is; "likely" alone, "probably" and "most likely" are
a model's manner of speaking.
"""

DISTANCING = _words("doubt doubts deny denies disagree dispute disputes reject rejects question")
"""The same, unless denied: "I doubt that it is sarcastic", but "there is no doubt that it is"."""

HARD = _words("hard difficult tough stretch premature risky unfair")
"""The same before "to": "It is a stretch to call it sarcastic"."""

DENIALS = _words("false untrue wrong incorrect inaccurate erroneous impossible mistake error")
"""Before "that" or "to", and as what is said of the claim, these deny it plainly.

"It is wrong to call it sarcastic", "The claim that it is sarcastic is false".
"""

AFFIRMATIONS = _words("true correct right accurate")
"""Said of the claim, these uphold it."""

CONTRASTS = _words("but while whereas though although yet however")
ELLIPSES = _words("is are was does do be isn't aren't doesn't don't not")
"""A contrast that ends in one of these says the opposite of the claim before it."""

SPOKEN_OF = _words("form format like example whether could might")
"""Right before a label, these speak about a verdict: "in the form Verdict: Yes"."""

PARTLY = _words("necessarily always entirely purely completely fully only wholly")
"""Denied, these leave the question open: "not necessarily sarcastic"."""

UNDECIDED = _words(
    "maybe perhaps possibly unclear unsure uncertain undetermined undecided cannot can't cant "
    "unable none depends both neither ambiguous inconclusive unknown indeterminate"
)
"""Behind a label, these withhold the verdict."""

DOUBTS = _words("maybe perhaps possibly unsure uncertain unclear depends")

NOT_KNOWN = _words("clear obvious evident sure certain apparent enough known likely probable")
"""Denied, these withhold the verdict: "it is not clear that ..."."""

REFUSALS = _words(
    "cannot can't cant unable won't couldn't impossible refuse decline difficult hard"
)
REFUSED = _words(
    "answer determine tell say judge decide help assist provide comply assess verify evaluate "
    "conclude respond give confirm"
)
"""One of the first and soon one of the second: the model will not or cannot tell."""

REPORTED = _words(
    "considered classified described seen interpreted regarded labeled labelled viewed deemed "
    "judged concluded inferred said read taken understood categorized categorised perceived argued"
)
OWN_CLAIMS = _words(
    "say argue conclude classify call describe judge answer consider infer see label rate"
)
""""can" and "would" before these two are a manner of speaking, elsewhere a mere possibility."""

INFINITIVES = _words(
    "seems seem appears appear intended meant likely found considered judged deemed believed "
    "understood supposed"
)
""""to be sarcastic" is a claim behind these only."""

CLAIMS = _words(
    "is are was 's isn't aren't wasn't ain't isnt arent be been being seems seem appears appear "
    "sounds sound reads read feels feel looks look remains makes make making renders considered "
    "classified deemed judged has have uses use using used carries carry conveys convey conveying "
    "expresses express employs employ contains contain containing shows show exhibits exhibit "
    "demonstrates demonstrate includes include displays display involves involve reflects adopts "
    "consider call classify label judge find deem rate describe detect detects see indicates "
    "creates create creating adds delivers becomes categorize suggests suggest comes come dripping "
    "drips laced filled"
)
"""Verbs that make a statement of a "sarcastic" a few filling words behind them; beside every 's."""

FILLING = _words(
    "not a an the any no very quite rather somewhat indeed also just meant intended to be being "
    "been as in both humorous funny ironic irony humor humour playful witty satirical hyperbolic "
    "lighthearted light hearted critical obvious clear strong kind sort of bit little so most "
    "likely this it that pair caption text post image picture photo tweet comment statement tone "
    "remark combination one example form type case instance and or nor non through way considered "
    "classified seen interpreted regarded described labeled labelled viewed deemed judged "
    "categorized understood perceived read across element elements hint touch sense level degree "
    "dose evidence indication indications sign signs trace traces presence use overt apparent "
    "visible much at all part real actual explicit implicit subtle deliberate dry definite message "
    "user author person writer poster here only merely than too anything nothing neither none "
    "inherent evident detectable pure mild heavy mocking cynical exaggerated joke joking clever "
    "feeling literal sincere genuine descriptive straightforward factual positive serious neutral "
    "like good perfect classic typical n't never hardly scarcely far from free lack absence devoid "
    "instead opposed more supposed appropriate found together them these they mismatch "
    "contradiction contrast description coincidence error unrelated random simple plain "
    "ordinary mere un joint opposite with made written said spoken posted"
)
"""Words that may stand between the verb and "sarcastic"; adverbs in -ly may as well."""

NOUNS = _words(
    "caption pair post text tweet comment statement tone remark combination image picture photo "
    "message joke content way manner meme sentence response one here in nature overall intent "
    "intention expression example humor humour commentary at all undertone undertones twist "
    "elements element present detected intended found evident there involved whatsoever"
)
"""What may follow in a fragment: "Not a sarcastic caption."."""

PRESENT = _words("detected present intended found here evident there involved apparent used")
SUBJECTS = _words("the this it that they these there")
INVERTED = _words("is are was does do did can could would isn't aren't should")
"""First in a clause and before a subject, these ask even without a question mark."""

BREAKERS = _words(
    "but so therefore thus hence because since although though while whereas which and who "
    "however rather"
)
"""Words before which a clause ends."""

PARTS = _words("picture image photo photograph caption text words")
JOINED_VERBS = _words("together are aren't do don't were seem appear convey express form make show")
"""An "and" between two parts of the pair, one of these behind them, parts no clauses."""

CONCLUDERS = _words(
    "therefore thus hence overall consequently accordingly conclusion ultimately summary"
)
RETRACTIONS = (
    _words("wait actually correction reconsidering mistaken"),
    _words("scratch that"),
    _words("second thought"),
    _words("second thoughts"),
    _words("on reflection"),
    _words("on reconsideration"),
)
"""What a model says when it takes a stated verdict back: any of the first, or all of another."""

NO_DENIAL = _words(
    "doubt question wonder surprise secret mistake mistaking denying deny miss ignore denial"
)
"""A negator right before one of these denies nothing: "no doubt", "I can't deny"."""

REPORTERS = _words(
    "says said reads read asks asked replies replied shouts shouted writes wrote states stated "
    "answers answered saying telling tells told"
)
"""A yes or no behind one of these is someone else's."""

CLAIMED_DENIALS = _words("think believe say feel find consider mean know see")

COORDINATORS = _words("or and nor vs versus")
COORDINATED = COORDINATORS | _words(
    "either verdict answer final with a an the simply just else say to"
)
"""What may stand between the two options of "Yes or No"."""
