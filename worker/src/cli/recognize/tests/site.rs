//! The model as the recognizer of the site's transcription jobs: `[transcription.recognizer]` with `kind = "model"`.

use std::path::PathBuf;

use undertone_api::job::dp_sgd::TrainingLoss;

use super::{TestSite, model_file};
use crate::config::transcription::{RecognizerSettings, TrainedModel};
use crate::run::evaluation::digest_file;
use crate::site::folder::Folder;
use crate::speech::model::{Model, ModelUsage};
use crate::speech::transcribe::piece::Piece;
use crate::speech::transcribe::recognize::RecognizerError;
use crate::speech::transcribe::segment::SpokenPiece;
use crate::speech::wav;

fn settings(site: &TestSite) -> TrainedModel {
    let path = |name: &str| Some(PathBuf::from(site.path(name)));
    TrainedModel {
        digest: digest_file(model_file()),
        file: path("model"),
        phone_map: path("phones.txt"),
        lexicon: path("words.dict"),
        language_model: path("words.arpa"),
        ..TrainedModel::default()
    }
}

/// Returns the name of the recognizer and the words of `spoken.wav`.
fn transcribe(site: &TestSite, settings: TrainedModel) -> (String, Vec<String>) {
    let folder = PathBuf::from(site.path("site"));
    let pool = RecognizerSettings::Model(settings).start_pool(&folder, "en").unwrap();
    let audio = wav::read(&std::fs::read(site.path("spoken.wav")).unwrap()).unwrap();
    let piece = Piece { id: 0, samples: 0..audio.len() as u64 };
    let sounds = [Ok::<_, RecognizerError>(SpokenPiece { piece, audio })].into_iter();
    let texts = pool.transcribe(sounds, &|| Ok(()), &|_, recognition| recognition.text()).unwrap();
    (pool.name().to_owned(), texts)
}

#[test]
fn configured_model_transcribes_at_its_site() {
    let site = TestSite::new();
    let configured = settings(&site);
    let (name, texts) = transcribe(&site, configured.clone());
    assert_eq!(texts, ["ab ba cab"]);
    assert_eq!(name, format!("model {} (phones, lexicon, language model)", configured.digest));
    // Without a file, the model of the registry with that digest.
    let models = Folder::new(site.path("site")).models();
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("other.safetensors"), b"another file").unwrap();
    std::fs::write(models.join("tones.safetensors"), model_file()).unwrap();
    assert_eq!(transcribe(&site, TrainedModel { file: None, ..configured }).1, ["ab ba cab"]);
}

#[test]
fn unusable_model_has_a_specific_error() {
    let site = TestSite::new();
    let mut model = Model::from_safetensors(model_file()).unwrap();
    model.set_usage(ModelUsage { loss: Some(TrainingLoss::Ctc), ..ModelUsage::default() });
    let ctc = model.to_safetensors().unwrap();
    site.write("ctc", &ctc);
    site.write("graph", b"\x08\x07\x12\x07pytorch");
    site.write("two.json", br#"{"characters":"ab"}"#);
    let path = |name: &str| Some(PathBuf::from(site.path(name)));
    let good = settings(&site);
    let characters = |name: &str| TrainedModel {
        characters: path(name),
        phone_map: None,
        lexicon: None,
        language_model: None,
        ..good.clone()
    };
    for (settings, expected) in [
        (TrainedModel { file: None, ..good.clone() }, "has the SHA-256"),
        (TrainedModel { digest: "0".repeat(64), ..good.clone() }, "correct one of them"),
        (TrainedModel { file: path("absent"), ..good.clone() }, "cannot read the model"),
        (TrainedModel { file: path("graph"), ..good.clone() }, "ONNX"),
        (TrainedModel { file: path("ctc"), digest: digest_file(&ctc), ..good.clone() }, "was trained with CTC"),
        (characters("two.json"), "name 3 classes, the model has 4"),
        (characters("absent.json"), "absent.json"),
    ] {
        let message = settings.open(&PathBuf::from(site.path("site"))).err().unwrap().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
