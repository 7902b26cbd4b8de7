//! The texts: a list of phrases of a hospital's assistant, with slots, and a numbering of all their combinations.

/// The intents, in alphabetical order.
pub const INTENTS: [&str; 12] = [
    "appointment",
    "call_staff",
    "complaint",
    "directions",
    "discharge",
    "equipment",
    "meal",
    "medication",
    "payment",
    "results",
    "smalltalk",
    "visitors",
];

const ROOMS: &[&str] = &["the ward", "radiology", "the lab", "intensive care", "surgery", "the pharmacy", "reception"];
const DAYS: &[&str] =
    &["today", "tomorrow", "on monday", "on tuesday", "on wednesday", "on friday", "next week", "tonight"];
const PEOPLE: &[&str] =
    &["the nurse", "a doctor", "my physician", "the surgeon", "a therapist", "the midwife", "someone"];
const DRUGS: &[&str] =
    &["ibuprofen", "paracetamol", "insulin", "my antibiotics", "the eye drops", "a painkiller", "my pills"];
const FOOD: &[&str] =
    &["tea", "soup", "a vegetarian lunch", "breakfast", "some water", "dinner without salt", "a snack"];
const THINGS: &[&str] =
    &["a wheelchair", "another pillow", "a blanket", "the remote", "a charger", "crutches", "the bed rail"];
const TESTS: &[&str] = &["blood test", "x-ray", "biopsy", "mri scan", "ultrasound", "urine test", "allergy test"];
const FAMILY: &[&str] =
    &["my sister", "my parents", "a friend", "my husband", "my wife", "the children", "my neighbour"];

/// A phrase: its intent, and text with `*` for each slot's value.
struct PhraseTemplate {
    intent: usize,
    text: &'static str,
    slots: [&'static [&'static str]; 2],
}

const fn template(
    intent: usize,
    text: &'static str,
    first: &'static [&'static str],
    second: &'static [&'static str],
) -> PhraseTemplate {
    PhraseTemplate { intent, text, slots: [first, second] }
}

/// The first template of each intent comes first, so that the most frequent texts cover all intents.
const TEMPLATES: [PhraseTemplate; 36] = [
    template(1, "please call * *", PEOPLE, DAYS),
    template(6, "can i have * *", FOOD, DAYS),
    template(7, "when do i get * *", DRUGS, DAYS),
    template(0, "i need an appointment * with *", DAYS, PEOPLE),
    template(9, "is the * result back *", TESTS, DAYS),
    template(3, "how do i get to * *", ROOMS, DAYS),
    template(11, "can * visit me *", FAMILY, DAYS),
    template(5, "please bring * *", THINGS, DAYS),
    template(10, "thank you, * was kind *", PEOPLE, DAYS),
    template(4, "can i go home * with *", DAYS, FAMILY),
    template(8, "what does the * cost *", TESTS, DAYS),
    template(2, "it was too loud in * *", ROOMS, DAYS),
    template(1, "i want to talk to * *", PEOPLE, DAYS),
    template(6, "is there * * please", FOOD, DAYS),
    template(7, "do i take * * with food", DRUGS, DAYS),
    template(0, "move my * appointment to *", TESTS, DAYS),
    template(9, "what did the * show *", TESTS, DAYS),
    template(3, "where is * from *", ROOMS, ROOMS),
    template(11, "how many may come besides * *", FAMILY, DAYS),
    template(5, "* is broken, it was fine *", THINGS, DAYS),
    template(10, "good morning, is * here *", PEOPLE, DAYS),
    template(4, "who signs me out * at *", DAYS, ROOMS),
    template(8, "does my insurance pay for * *", DRUGS, DAYS),
    template(2, "nobody came * from *", DAYS, ROOMS),
    template(1, "it hurts, is * there *", PEOPLE, DAYS),
    template(6, "i did not get * *", FOOD, DAYS),
    template(7, "i feel sick from * *", DRUGS, DAYS),
    template(0, "cancel * at *", DAYS, ROOMS),
    template(9, "send the * to *", TESTS, FAMILY),
    template(3, "which floor is * on *", ROOMS, DAYS),
    template(11, "tell * i am in *", FAMILY, ROOMS),
    template(5, "i need * in *", THINGS, ROOMS),
    template(10, "how are you *, says *", DAYS, FAMILY),
    template(4, "i want to leave * without *", DAYS, DRUGS),
    template(8, "where do i pay for * *", FOOD, DAYS),
    template(2, "* did not listen *", PEOPLE, DAYS),
];

/// Writes the text of a rank, from 1, and returns its intent. Different ranks have different texts.
pub(super) fn write(rank: u64, into: &mut String) -> &'static str {
    let index = rank.saturating_sub(1);
    let many = TEMPLATES.len() as u64;
    let PhraseTemplate { intent, text, slots } = &TEMPLATES[(index % many) as usize];
    let mut rest = index / many;
    let mut values = [""; 2];
    for (value, slot) in values.iter_mut().zip(slots) {
        *value = slot[(rest % slot.len() as u64) as usize];
        rest /= slot.len() as u64;
    }
    let mut values = values.into_iter();
    for (n, piece) in text.split('*').enumerate() {
        if n > 0 {
            into.push_str(values.next().unwrap_or_default());
        }
        into.push_str(piece);
    }
    if rest > 0 {
        into.push_str(", bed ");
        into.push_str(&rest.to_string());
    }
    INTENTS[*intent]
}

/// Returns the text of a rank, from 1, and its intent.
pub fn text(rank: u64) -> (String, &'static str) {
    let mut text = String::new();
    let intent = write(rank, &mut text);
    (text, intent)
}
