//! The fields of the planner.

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::transcription::{
    CrowdedPieces, DummyCorpus, LANGUAGES, ProviderProtocol, SiteRecognizer, WordWeight,
};

use super::super::plan::{MOST_WORDS, RecognizerRow, TranscriptionPlan};
use super::{WORD, cost};
use crate::kind::field::{
    form_options, form_word, render_choice, render_line, render_number, render_row_number, render_text,
};
use crate::kind::priced_form::PricedForm;
use crate::path;
use crate::words;

/// Renders the whole planner for a plan.
pub(in crate::kind::transcription) fn render_planner(
    plan: &TranscriptionPlan,
    datasets: &[Dataset],
    standings: &[(DatasetId, Vec<AccountStanding>)],
    consortium: ConsortiumId,
) -> AnyView {
    let cost = cost::render_cost(plan, datasets, standings, consortium);
    let fields = view! {
        {render_job(plan, datasets)}
        {render_promise(plan)}
        {render_recognizers(plan)}
        {render_vocabulary(plan)}
        {render_site(plan)}
    }
    .into_any();
    view! {
        <PricedForm word=WORD.to_owned() consortium=consortium.to_string() again=path::plan(consortium) cost>{fields}</PricedForm>
    }
    .into_any()
}

fn render_job(plan: &TranscriptionPlan, datasets: &[Dataset]) -> AnyView {
    let sets = datasets.iter().map(|dataset| {
        let long = dataset
            .seconds
            .map_or_else(String::new, |seconds| format!(", about {}", words::duration(seconds.0 as f64)));
        let label = format!(
            "{} of {}, {}{long}",
            dataset.name,
            dataset.organization_name,
            words::visibility(dataset.visibility)
        );
        (dataset.id.to_string(), label)
    });
    let languages = LANGUAGES.iter().map(|code| ((*code).to_owned(), (*code).to_owned())).collect();
    view! {
        <fieldset>
            <legend>"Job"</legend>
            {render_line("hear[title]".to_owned(), "Title", plan.title.clone(), "Shown to the consortium", true)}
            {render_choice("hear[dataset]".to_owned(), "Recordings", &plan.dataset.to_string(), sets.collect())}
            {render_choice("hear[language]".to_owned(), "Spoken language", &plan.language, languages)}
        </fieldset>
    }
    .into_any()
}

fn render_promise(plan: &TranscriptionPlan) -> AnyView {
    view! {
        <fieldset>
            <legend>"Guarantee"</legend>
            {render_number("hear[epsilon]".to_owned(), "ε", plan.epsilon, (0.01, 50.0), false)}
            {render_number("hear[delta]".to_owned(), "δ", plan.delta, (0.0, 0.01), false)}
            {render_number("hear[distance]".to_owned(), "Distance d: counts of pieces; one word changes 10", f64::from(plan.distance), (1.0, 10_000.0), true)}
            <p class="hint">"d counts hide d / 10 words anywhere in the recordings, or one stretch of 1.3 seconds for each further 2 counts: 102 hide any minute of speech. There is no guarantee for a whole recording or for a person."</p>
        </fieldset>
    }
    .into_any()
}

fn render_recognizers(plan: &TranscriptionPlan) -> AnyView {
    let rows = plan.providers.iter().enumerate().map(|(index, row)| render_recognizer(index, row)).collect_view();
    view! {
        <fieldset>
            <legend>"Recognizers"</legend>
            <div class="parties">{rows}</div>
            {render_number("hear[colluding]".to_owned(), "Colluding recognizers, at most", f64::from(plan.colluding), (1.0, 16.0), true)}
            <p class="hint">"Use the names of the site’s configuration, which has the addresses and keys. Rows without a name are ignored. Each recognizer hears a random part, with its own dummies."</p>
        </fieldset>
    }
    .into_any()
}

fn render_recognizer(index: usize, row: &RecognizerRow) -> AnyView {
    let name = |field: &str| format!("hear[providers][{index}][{field}]");
    let protocols: Vec<_> = ProviderProtocol::ALL.map(|one| (one, one.label())).into();
    view! {
        <div class="party">
            <div class="party-fields">
                {render_line(name("name"), "Name", row.name.clone(), "none", false)}
                {render_choice(name("protocol"), "Protocol", &form_word(&row.protocol), form_options(&protocols))}
                {render_line(name("per_minute"), "Price per minute", row.per_minute.clone(), "0.0060", false)}
                {render_line(name("currency"), "Currency", row.currency.clone(), "USD", false)}
                {render_row_number(name("step"), "Rounded up to seconds", f64::from(row.step), (1.0, 60.0), true)}
                {render_row_number(name("least"), "Minimum seconds", f64::from(row.least), (0.0, 60.0), true)}
            </div>
        </div>
    }
    .into_any()
}

fn render_vocabulary(plan: &TranscriptionPlan) -> AnyView {
    let from = vec![
        ("public".to_owned(), "a public list: reveals nothing".to_owned()),
        ("selected".to_owned(), "public candidates, chosen by the recordings with noise: costs ε".to_owned()),
        ("data".to_owned(), "the recordings: reveals what was said, public recordings only".to_owned()),
    ];
    let is_selected = plan.from == "selected";
    let weights = form_options(&[
        (WordWeight::Frequency, "the most frequent words"),
        (WordWeight::TfIdf, "words more frequent than in the site’s public corpus (TF-IDF)"),
    ]);
    view! {
        <fieldset>
            <legend>"Vocabulary"</legend>
            {render_choice("hear[from]".to_owned(), "Source of words", &plan.from, from)}
            {render_text("hear[words]", "The public list, separated by spaces, commas or lines", plan.words.clone(), "diabetes insulin surgery", 8)}
            {render_number("hear[size]".to_owned(), "Assumed number of words until the list is entered", f64::from(plan.size), (1.0, f64::from(MOST_WORDS)), true)}
            <p class="hint">"Use a list that is independent of the recordings: a textbook’s index, a drug register, the most frequent words of a language. Every word costs dummies, said or not, so a short list of relevant words is cheaper."</p>
            <p class="hint plain-only">"A URL can hold a list of some hundred words. Save a longer list as a draft and open the draft to see its numbers."</p>
            <details open=is_selected>
                <summary>"Words chosen with noise"</summary>
                {render_text("hear[candidates]", "Public candidates, separated by spaces, commas or lines", plan.candidates.clone(), "abscess acute allergy", 8)}
                {render_number("hear[choose]".to_owned(), "Number of words to choose", f64::from(plan.choose), (1.0, f64::from(MOST_WORDS)), true)}
                {render_number("hear[choice]".to_owned(), "ε of the choice, a part of ε", plan.choice, (0.01, 50.0), false)}
                {render_choice("hear[weight]".to_owned(), "Choose", &form_word(&plan.weight), weights)}
                <p class="hint">"Each piece that leaves votes for one candidate, and each candidate’s votes get noise of deviation 1.4 d / ε. Candidates with fewer votes than some multiples of that are chosen by chance. Candidates must not be made from the recordings: take a dictionary."</p>
            </details>
            <details>
                <summary>"Words from public recordings"</summary>
                {render_number("hear[top]".to_owned(), "Most frequent words, percent", plan.top, (0.0, 100.0), false)}
                {render_line("hear[above]".to_owned(), "Least TF-IDF", plan.above.clone(), "0.01", false)}
                {render_number("hear[most]".to_owned(), "Most words", f64::from(plan.most), (1.0, 20_000.0), true)}
            </details>
        </fieldset>
    }
    .into_any()
}

/// The measured protection of the product's own voices.
const SPEAKER_IDENTIFICATION: &str = "Of 91 speakers, a recognizer that knows recordings of them identifies 80 % as recorded \
                          and 1.5 % after the McAdams coefficient. A recognizer that knows recordings converted in \
                          the same way identifies 76 % after the McAdams coefficient, 19 to 40 % after the \
                          vocoder with one voice and 7 % with random voices (1 % by guessing). Fewer vocoder coefficients hide more and reduce the accuracy \
                          of words. For McAdams and for unchanged voices, the site’s policy must set \
                          voices_may_leave.";

fn render_site(plan: &TranscriptionPlan) -> AnyView {
    let voices = vec![
        ("varied".to_owned(), "vocoder, at the site: another random voice for each piece".to_owned()),
        ("vocoder".to_owned(), "vocoder, at the site: one voice".to_owned()),
        ("mcadams".to_owned(), "McAdams coefficient, at the site: I accept that speakers can be identified".to_owned()),
        ("command".to_owned(), "the site’s own program".to_owned()),
        ("url".to_owned(), "the site’s own server".to_owned()),
        ("cloned".to_owned(), "none: voices leave unchanged, dummies imitate them".to_owned()),
    ];
    let corpora = form_options(&[
        (DummyCorpus::Bundled, "a small public English text"),
        (DummyCorpus::Site, "the site’s public text"),
    ]);
    let crowded = form_options(&[
        (CrowdedPieces::Keep, "stay at the site"),
        (CrowdedPieces::Send, "are sent, public recordings only"),
    ]);
    let recognizers = form_options(&[
        (SiteRecognizer::Site, "the site’s default"),
        (SiteRecognizer::Pocketsphinx, "PocketSphinx"),
        (SiteRecognizer::Server, "a server in the site’s own network"),
    ]);
    view! {
        <fieldset>
            <legend>"At the site"</legend>
            {render_choice("hear[voice]".to_owned(), "Voice conversion", &plan.voice, voices)}
            {render_number("hear[alpha]".to_owned(), "McAdams coefficient α", plan.alpha, (0.5, 1.5), false)}
            {render_number("hear[detail]".to_owned(), "Vocoder: number of coefficients", f64::from(plan.detail), (8.0, 20.0), true)}
            <p class="hint">{SPEAKER_IDENTIFICATION}</p>
            {render_choice("hear[corpus]".to_owned(), "Text of dummies", &form_word(&plan.corpus), corpora)}
            {render_choice("hear[crowded]".to_owned(), "Pieces with several words", &form_word(&plan.crowded), crowded)}
            {render_choice("hear[recognizer]".to_owned(), "First transcript by", &form_word(&plan.recognizer), recognizers)}
        </fieldset>
    }
    .into_any()
}
