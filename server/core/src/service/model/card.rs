//! The card of a model, as Markdown: what it is, its data, its privacy guarantee, its quality, its limits, its use.
//!
//! The card repeats the record of the model and adds no facts. The same record gives the same card.

mod classifier;

use std::fmt::Write as _;

use undertone_api::dataset::Visibility;
use undertone_api::id::ArtifactId;
use undertone_api::job::dp_sgd::{AcousticModel, RecurrentCell, TrainingLoss};
use undertone_api::model::ModelSource;
use undertone_api::model::record::{ModelDesign, ModelQuality, ModelRecord, QualityOrigin};
use undertone_api::signed::certificate::{LineageSum, relation};
use undertone_privacy::PrivacyUnit;

use super::record::get;
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;

/// The greatest ε whose factor is written out; above it the factor says nothing that a reader can use.
const LARGEST_WRITTEN: f64 = 10.0;

/// Returns the card of a model.
///
/// # Errors
/// As [`get`].
pub async fn card(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<String, Error> {
    let record = get(ctx, actor, id).await?;
    Ok(render_card(&record, &ctx.addresses.http))
}

/// Renders the card of a record; `address` is that of the server, for the commands.
pub(crate) fn render_card(record: &ModelRecord, address: &str) -> String {
    let mut card = String::new();
    let parts = [
        render_head(record),
        render_uses(record),
        render_data(record),
        render_training(record),
        render_privacy(record),
        render_quality(record),
        render_limits(record),
        render_commands(record, address.trim_end_matches('/')),
    ];
    for part in parts {
        card.push_str(part.trim_end());
        card.push_str("\n\n");
    }
    card.truncate(card.trim_end().len());
    card.push('\n');
    card
}

/// Escapes the characters of a name that Markdown interprets.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_[]<>|#&".contains(character) {
            escaped.push('\\');
        }
        escaped.push(if character.is_control() { ' ' } else { character });
    }
    escaped
}

/// Formats an ε with two decimals, rounded up.
fn epsilon(value: f64) -> String {
    format!("{:.2}", (value * 100.0).ceil() / 100.0)
}

fn share(value: f64) -> String {
    format!("{:.2} %", value * 100.0)
}

fn unit_name(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "record (utterance)",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => "words",
    }
}

/// Describes the layers of a model in words.
pub fn describe_layers(design: &ModelDesign) -> String {
    match design {
        ModelDesign::Network { settings } => describe_network(settings),
        ModelDesign::Classifier { classifier, labels } => classifier::describe_layers(classifier, labels.len()),
    }
}

fn describe_network(settings: &AcousticModel) -> String {
    let classes = settings.classes.map_or_else(|| "open".to_owned(), |classes| classes.to_string());
    if let Some(rows) = &settings.rows {
        let normalize = if settings.normalize { ", layer norm" } else { "" };
        let hidden = match settings.layers {
            0 => "linear".to_owned(),
            layers => format!("{layers} dense layer(s) of {} units with tanh{normalize}", settings.hidden),
        };
        let embedding = rows.text.map_or_else(String::new, |text| {
            format!("an embedding of {} vectors of {} numbers for n-grams of texts, ", text.buckets, text.width)
        });
        return format!("{} inputs, {embedding}{hidden}, {classes} output(s)", rows.inputs());
    }
    let cell = match settings.cell {
        RecurrentCell::Gru => "GRU",
        RecurrentCell::Lstm => "LSTM",
    };
    let directions = if settings.bidirectional { "bidirectional " } else { "" };
    let context = settings.context.map_or_else(String::new, |frames| format!("a convolution over {frames} frames, "));
    let normalize = if settings.normalize { ", layer norm" } else { "" };
    let (layers, hidden) = (settings.layers, settings.hidden);
    format!("{context}{layers} {directions}{cell} layer(s) of {hidden} units{normalize}, {classes} classes")
}

fn render_head(record: &ModelRecord) -> String {
    let ModelRecord { file, job, consortium, version, .. } = record;
    let mut text = format!("# {} ({})\n\n", escape(&job.title), escape(&file.name));
    if let Some(deletion) = &file.deletion {
        let _ = writeln!(
            text,
            "**The file was deleted on {} by {}: {}**\n",
            deletion.at.date(),
            escape(&deletion.by_name),
            escape(&deletion.reason)
        );
    }
    let source = file.source.map_or("unknown data", ModelSource::label);
    let _ = writeln!(
        text,
        "{} of the consortium {}, made from {source}.\n\n\
         | | |\n|---|---|\n\
         | File | `{}`, {} bytes |\n\
         | SHA-256 | `{}` |\n\
         | Version | {version} |\n\
         | Made by | {}, job `{}` |\n\
         | Finished | {} |\n\
         | Layers | {} |\n\
         | Loss | {} |",
        match &record.design {
            ModelDesign::Classifier { .. } => "A classifier of queries",
            ModelDesign::Network { settings } if settings.rows.is_some() => "A model of rows of tables",
            ModelDesign::Network { .. } => "An acoustic model",
        },
        escape(&consortium.name),
        file.name,
        file.size,
        file.digest,
        escape(&job.proposed_by),
        job.id,
        job.finished_at.map_or_else(|| "unknown".to_owned(), |at| at.date().to_string()),
        describe_layers(&record.design),
        describe_loss(&record.design),
    );
    text
}

fn describe_loss(design: &ModelDesign) -> &'static str {
    let ModelDesign::Network { settings } = design else { return "cross-entropy of each query" };
    match settings.loss {
        TrainingLoss::CrossEntropy if settings.rows.is_some() => "cross-entropy of each row",
        TrainingLoss::CrossEntropy => "cross-entropy of each frame",
        TrainingLoss::Ctc => "CTC over characters",
        TrainingLoss::SquaredError => "squared error of each row, with the target's range as -1 to 1",
    }
}

fn render_uses(record: &ModelRecord) -> String {
    let settings = match &record.design {
        ModelDesign::Network { settings } => settings,
        ModelDesign::Classifier { labels, .. } => return classifier::render_uses(labels),
    };
    if let Some(rows) = &settings.rows {
        let features: Vec<String> = rows.features.iter().map(|column| format!("`{}`", column.name)).collect();
        return format!(
            "## Intended use\n\n\
             The model predicts the column `{}` of a row from the columns {}. The declared ranges and categories are part of the \
             file, and values beyond a range count as its end. It is meant for rows like those of its training data, and as the \
             beginning of further training. Its predictions alone are no basis for decisions about persons.",
            rows.target.name,
            features.join(", ")
        );
    }
    let output = match settings.loss {
        TrainingLoss::Ctc => "characters",
        _ => "the class of each frame of 10 ms, such as a state of a phone",
    };
    format!(
        "## Intended use\n\n\
         The model scores features of speech and gives {output}. A lexicon and a language model turn the scores into words. It \
         is meant for the recognition of speech like that of its training data, and as the beginning of further training. It is \
         not meant to identify speakers, and its scores are no basis for decisions about persons."
    )
}

fn render_data(record: &ModelRecord) -> String {
    let mut text = "## Data\n\nThe public facts of the datasets of the job. Private data stayed at their sites, and the units \
                    are the published number by which the training divides.\n\n| Dataset | Owner | Visibility | Use | Units |\n|---|---|---|---|---|\n"
        .to_owned();
    for used in &record.datasets {
        let visibility = match used.visibility {
            Visibility::Public => "public",
            Visibility::Private => "private",
            Visibility::Open => "open",
        };
        let purpose = serde_json::to_value(used.purpose).ok();
        let purpose = purpose.as_ref().and_then(|purpose| purpose.as_str()).unwrap_or_default().replace('_', " ");
        let (name, owner) = (escape(&used.name), escape(&used.organization_name));
        let _ = writeln!(text, "| {name} | {owner} | {visibility} | {purpose} | {} |", used.units);
    }
    text
}

fn render_training(record: &ModelRecord) -> String {
    let method = if record.design.is_network() { "Federated training" } else { "Active learning" };
    let mut text = format!(
        "## Training\n\n{method} in {} of {} planned rounds. The manifest `{}` signs every parameter.\n",
        record.job.rounds_done, record.job.rounds, record.job.manifest
    );
    if record.line.len() > 1 {
        text.push_str(
            "\nEach version continues the one before:\n\n| Version | Job | SHA-256 | Made from |\n|---|---|---|---|\n",
        );
        for version in &record.line {
            let deleted = if version.deletion.is_some() { " (deleted)" } else { "" };
            let _ = writeln!(
                text,
                "| {} | {}{deleted} | `{}` | {} |",
                version.version,
                escape(&version.title),
                version.digest,
                version.source.label()
            );
        }
    }
    text
}

fn render_privacy(record: &ModelRecord) -> String {
    let mut text = "## Privacy\n\n".to_owned();
    if record.has_open_data() {
        text.push_str(
            "**No ε covers this model: it was made of exact gradients of data that their owners marked open.** A reader of the \
             model may learn whether a person is in these data, and what the person said.\n\n",
        );
    }
    if record.privacy.is_empty() {
        text.push_str(if record.is_of_public_data() {
            "The model follows from public data alone, and no private data was charged for it.\n"
        } else if record.certificate.is_some() {
            "The jobs of its versions charged no account, so no guarantee is stated here.\n"
        } else {
            "No certificate of this model is available, so no guarantee is stated here.\n"
        });
        return text;
    }
    text.push_str("| Party | Protected | ε | δ | Jobs |\n|---|---|---|---|---|\n");
    for sum in &record.privacy {
        let figure = sum.figure;
        let _ = writeln!(
            text,
            "| {}, {} | any one {} | {} | {} | {} |",
            escape(&sum.organization_name),
            escape(&sum.dataset_names.join(", ")),
            unit_name(sum.unit),
            figure.and_then(|figure| figure.epsilon).map_or_else(|| "none".to_owned(), epsilon),
            figure.map_or_else(|| "none".to_owned(), |figure| format!("{:e}", figure.delta)),
            sum.jobs
        );
    }
    let unbounded: Vec<_> = record.privacy.iter().filter(|sum| finite(sum).is_none()).collect();
    if !unbounded.is_empty() {
        let names =
            unbounded.iter().map(|sum| escape(&format!("{}, {}", sum.organization_name, sum.dataset_names.join(", "))));
        let names: Vec<_> = names.collect();
        let _ = writeln!(text, "\n**No finite ε bounds the releases about {}.**", names.join("; "));
    }
    let worst = record.privacy.iter().filter(|sum| finite(sum).is_some());
    if let Some((sum, (value, delta))) =
        worst.filter_map(|sum| Some((sum, finite(sum)?))).max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))
    {
        let _ = write!(text, "\nIn words, for the largest finite ε: {} ", relation(sum.adjacency, sum.unit));
        if value <= LARGEST_WRITTEN {
            let factor = (value.exp() * 10.0).ceil() / 10.0;
            let _ = writeln!(
                text,
                "A result is at most {factor:.1} times (e to the power of {}) as likely with the one as with the other, plus a \
                 probability of {delta:e}.",
                epsilon(value)
            );
        } else {
            let _ = writeln!(
                text,
                "With ε above {LARGEST_WRITTEN} this bounds the difference so weakly that it is no protection by itself."
            );
        }
    }
    text.push_str(
        "\nThe figures add up the releases of the line's versions to each account, rounded up. A person with data at several \
         parties, and other jobs on the same data, add to this.\n",
    );
    if let Some(certificate) = &record.certificate {
        let _ = writeln!(text, "\nThe certificate of the last job has the SHA-256 `{}`.", certificate.digest);
    }
    text
}

/// Returns ε and δ of a sum with a finite ε.
fn finite(sum: &LineageSum) -> Option<(f64, f64)> {
    let figure = sum.figure?;
    Some((figure.epsilon?, figure.delta))
}

fn render_quality(record: &ModelRecord) -> String {
    if record.quality.is_empty() {
        return "## Quality\n\nNo measurement of this model is known to the server.".to_owned();
    }
    let mut text =
        "## Quality\n\n| Test set | Figure | Value | 95 % interval | Measured by |\n|---|---|---|---|---|\n".to_owned();
    for ModelQuality { origin, title, test, metric, value, low, high, .. } in &record.quality {
        let by = match origin {
            QualityOrigin::Training => "the training job, on public data",
            QualityOrigin::Evaluation => "the evaluation ",
        };
        let by = if *origin == QualityOrigin::Evaluation { format!("{by}{}", escape(title)) } else { by.to_owned() };
        let _ = writeln!(
            text,
            "| {} | {metric} | {} | {} to {} | {by} |",
            escape(test),
            share(*value),
            share(*low),
            share(*high)
        );
    }
    text.push_str(
        "\nIntervals of the training job treat frames as independent, which makes them narrower than the true uncertainty. Those of \
         evaluations include the noise of their releases.\n",
    );
    text
}

fn render_limits(record: &ModelRecord) -> String {
    let settings = match &record.design {
        ModelDesign::Network { settings } => settings,
        ModelDesign::Classifier { .. } => return classifier::LIMITS.to_owned(),
    };
    if settings.rows.is_some() {
        return "## Limits\n\n\
                * The figures hold for the listed test sets. Rows of other sites or times were not measured.\n\
                * Groups with few units in the training data are predicted worse, and noise for privacy affects them most.\n\
                * The guarantee of privacy covers the model file. It does not cover the rows that a user gives to the model.\n"
            .to_owned();
    }
    let mut text = "## Limits\n\n\
                    * The figures hold for the listed test sets. Other accents, microphones, rooms and languages were not measured.\n\
                    * Groups with few speakers in the training data are recognized worse, and noise for privacy affects them most.\n\
                    * The guarantee of privacy covers the model file. It covers neither recordings that a user gives to the model nor a \
                    copy that a site personalizes.\n"
        .to_owned();
    if settings.bidirectional {
        text.push_str(
            "* The layers read backwards too, so the model needs whole recordings and cannot follow live speech.\n",
        );
    }
    text
}

fn render_commands(record: &ModelRecord, address: &str) -> String {
    let ModelRecord { file, job, design, .. } = record;
    if file.deletion.is_some() {
        return "## Use\n\nThe file was deleted, so it cannot be downloaded.".to_owned();
    }
    let name = &file.name;
    let mut commands = match design {
        ModelDesign::Classifier { .. } => {
            format!("undertone-worker predict {name} queries.csv --output predictions.csv\n")
        }
        ModelDesign::Network { settings } if settings.rows.is_some() => {
            format!("undertone-worker predict {name} rows.csv --output predictions.csv\n")
        }
        ModelDesign::Network { settings } if settings.loss == TrainingLoss::Ctc => {
            format!("undertone-worker recognize recording.flac --model {name} --characters characters.json\n")
        }
        ModelDesign::Network { .. } => {
            format!("undertone-worker recognize recording.flac --model {name} --phone-map phones.json\n")
        }
    };
    if design.is_network() {
        let _ = writeln!(commands, "undertone-worker evaluate {name} --dataset DATASET");
    }
    if design.has_graph() {
        let _ = writeln!(commands, "undertone-worker export {name} --output model.onnx");
    }
    if matches!(design, ModelDesign::Network { settings } if settings.rows.is_none() && settings.loss != TrainingLoss::Ctc)
    {
        let _ = writeln!(commands, "undertone-worker personalize {name} --dataset DATASET");
    }
    let (dataset, continuation) = if design.is_network() {
        let text =
            format!("To continue the model, propose a `dp_sgd` job with `\"initial_model\": \"{}\"`.", file.digest);
        ("; `DATASET` is a dataset of the site", text)
    } else {
        ("", "`queries.csv` has a header with the column `query`; `--column` names another one.".to_owned())
    };
    format!(
        "## Use\n\n\
         `KEY` is an API key with the scopes `models` and `read`{dataset}.\n\n\
         ```sh\n\
         curl --fail --header \"Authorization: Bearer KEY\" --output {name} {address}/api/v1/artifacts/{}/content\n\
         echo \"{}  {name}\" | sha256sum --check\n\
         curl --fail --header \"Authorization: Bearer KEY\" --output certificate.json {address}/api/v1/jobs/{}/certificate\n\
         undertone-server certificate verify certificate.json --model {name}\n\
         {commands}\
         ```\n\n\
         {continuation}",
        file.id, file.digest, job.id
    )
}

#[cfg(test)]
mod tests;
