//! Inputs of the planners: plain ones, each with its name in the form.

use leptos::prelude::*;

/// Renders a number.
pub(super) fn render_number(name: String, label: &'static str, value: f64, range: (f64, f64), whole: bool) -> AnyView {
    let step = if whole { "1" } else { "any" };
    view! {
        <label class="field inline"><span>{label}</span>
            <input type="number" name=name required min=range.0.to_string() max=range.1.to_string() step=step value=value.to_string()/>
        </label>
    }
    .into_any()
}

/// Renders a number in a row with others, under its label.
pub(super) fn render_row_number(
    name: String,
    label: &'static str,
    value: f64,
    range: (f64, f64),
    whole: bool,
) -> AnyView {
    let step = if whole { "1" } else { "any" };
    view! {
        <div class="field slider">
            <label><span>{label}</span>
                <input type="number" name=name required min=range.0.to_string() max=range.1.to_string() step=step value=value.to_string()/>
            </label>
        </div>
    }
    .into_any()
}

/// Renders a choice of several options, each with its word in the form and its label.
pub(super) fn render_choice(
    name: String,
    label: &'static str,
    chosen: &str,
    options: Vec<(String, String)>,
) -> AnyView {
    let option = |(value, text): (String, String)| {
        let selected = value == chosen;
        view! { <option value=value selected=selected>{text}</option> }
    };
    view! {
        <label class="field choice"><span>{label}</span>
            <select name=name>{options.into_iter().map(option).collect_view()}</select>
        </label>
    }
    .into_any()
}

/// Renders a checkbox.
pub(super) fn render_checkbox(name: String, label: &'static str, value: bool, fixed: bool) -> AnyView {
    view! {
        <label class="check"><input type="checkbox" name=name value="true" checked=value disabled=fixed/>{label}</label>
    }
    .into_any()
}

/// Renders a line of text.
pub(super) fn render_line(
    name: String,
    label: &'static str,
    value: String,
    help: &'static str,
    required: bool,
) -> AnyView {
    view! {
        <label class="field"><span>{label}</span>
            <input type="text" name=name value=value maxlength="400" required=required placeholder=help autocomplete="off"/>
        </label>
    }
    .into_any()
}

/// Renders several lines of text.
pub(super) fn render_text(
    name: &'static str,
    label: &'static str,
    value: String,
    help: &'static str,
    rows: u32,
) -> AnyView {
    view! {
        <label class="field"><span>{label}</span>
            <textarea name=name rows=rows.to_string() placeholder=help>{value}</textarea>
        </label>
    }
    .into_any()
}

/// Returns the word of a value in forms and specs, which is that of its JSON.
pub(super) fn form_word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().map(str::to_owned).unwrap_or_default()
}

/// Returns the options of a choice: every value with its word and its label.
pub(super) fn form_options<T: serde::Serialize>(all: &[(T, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(value, text)| (form_word(value), (*text).to_owned())).collect()
}
