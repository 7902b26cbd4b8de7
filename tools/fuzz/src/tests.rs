use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::Target;
use super::mutation::{Edit, Mutation};

#[test]
fn failing_target_is_reported_with_its_least_input() {
    let least = RefCell::new(Vec::new());
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Target::new("fuzz.broken", 2_000).seed(*b"{\"count\":3,\"rest\":[1,2,3,4,5,6,7,8,9]}").run(|input| {
            let document: Option<serde_json::Value> = serde_json::from_slice(input).ok();
            let count = document.and_then(|document| document["count"].as_u64());
            if count.is_some_and(|count| count > 1 << 40) {
                *least.borrow_mut() = input.to_vec();
                panic!("too many");
            }
        });
    }));
    assert!(broken.is_err(), "2,000 inputs of this kind hold a count that is too large");
    let least: serde_json::Value = serde_json::from_slice(&least.borrow()).expect("JSON");
    assert_eq!(least["rest"].as_array().map(Vec::len), Some(9), "nothing else need be changed: {least}");
}

#[test]
fn ordinary_run_uses_the_same_stated_number_of_inputs() {
    // `make fuzz` never runs this module, so no time limit is set here.
    let draw = || {
        let inputs = RefCell::new(Vec::new());
        Target::new("fuzz.same", 100)
            .seed("a document")
            .words(&["word"])
            .run(|input| inputs.borrow_mut().push(input.to_vec()));
        inputs.into_inner()
    };
    let inputs = draw();
    assert_eq!(
        (inputs.len(), inputs[0].as_slice()),
        (101, b"a document".as_slice()),
        "the document itself, and 100 more"
    );
    assert_eq!(inputs, draw());
    assert!(inputs.iter().collect::<BTreeSet<_>>().len() > 80, "they differ");
}

#[test]
fn every_edit_gives_an_input_within_the_length_limit() {
    let documents = ["", "x", "{\"a\":[1,{\"b\":\"text\"}],\"c\":2.5}", "7 8 9"];
    let mutation = Mutation { seeds: documents.map(Into::into).to_vec(), words: vec![b"word".to_vec()] };
    let changed = Cell::new(0);
    for kind in 0..16 {
        for (at, amount) in [(0, 0), (1, 31), (5, 8), (u32::MAX, u32::MAX), (7, 4), (3, 3), (4, 2)] {
            for value in [0, 15, 16 * 11, 240, 255, u64::MAX] {
                for of in 0..4 {
                    let edit = Edit { kind, at, amount, value };
                    let input = mutation.input(of, &[edit, edit, edit]);
                    assert!(input.len() <= 1 << 20, "{edit:?}");
                    changed.set(changed.get() + usize::from(input != documents[of as usize].as_bytes()));
                }
            }
        }
    }
    assert!(changed.get() > 1000, "only {} inputs are changed", changed.get());
}
