//! The verification of a certificate, by the browser and at a terminal.

use leptos::prelude::*;
use undertone_api::id::JobId;
use undertone_api::signed::Certificate;
use undertone_certificate::VerificationPoint;

use crate::{asset, path};

/// Renders the verification of the certificate of the page's job `id`. The script shows the form, which is hidden without
/// it, and compares the job of the downloaded file with `id`.
pub(super) fn render_section(certificate: &Certificate, id: JobId) -> AnyView {
    view! {
        <section class="panel" id="verify"><h2>"Verify it yourself"</h2>
            <p class="hint">"Your browser downloads the signed file and repeats each check: signatures, receipts, chains and every ε. \
                The browser uploads nothing; the download of the file is noted in the audit log. This server supplied the checking code: \
                for an independent check, use the program at a terminal."</p>
            <form class="verify" data-verify=path::certificate_file(id) data-job=id.to_string() hidden>
                <div class="actions"><button class="primary" type="submit">"Verify now"</button></div>
                <details class="more"><summary>"Use keys that you know, a file or a model of your own"</summary>{render_inputs()}</details>
                <p class="verdict" role="status" data-verdict=""></p>
                <ol class="proof-list" data-checks="" hidden>{VerificationPoint::ALL.into_iter().map(render_point).collect_view()}</ol>
            </form>
            <details class="more"><summary>"Verify at a terminal"</summary>{render_command(certificate)}</details>
            <script type="module" src=asset::VERIFY></script>
        </section>
    }
    .into_any()
}

/// Renders the inputs of a stricter verification.
fn render_inputs() -> AnyView {
    view! {
        <div class="stack">
            <label class="field"><span>"Public key of the server"</span>
                <input type="text" class="mono" name="server_key" autocomplete="off" spellcheck="false" maxlength="64" aria-describedby="server-key-help"/>
                <small id="server-key-help">"The "<code>"server_key"</code>" in the configuration of a worker. A key in the file proves less."</small></label>
            <label class="field"><span>"Public keys of the sites, one a line"</span>
                <textarea class="mono" name="site_keys" rows="2" autocomplete="off" spellcheck="false"></textarea></label>
            <label class="field"><span>"Certificate file, instead of the one of this page"</span>
                <input type="file" name="certificate" accept="application/json,.json"/></label>
            <label class="field"><span>"Model file that the certificate must describe"</span>
                <input type="file" name="model"/></label>
        </div>
    }
    .into_any()
}

/// Renders a point before its check.
fn render_point(point: VerificationPoint) -> AnyView {
    view! {
        <li data-point=point.name() data-state="waiting">
            <span class="proof-mark" aria-hidden="true" data-mark="">"○"</span>
            <div><h3>{point.label()}</h3><p class="hint">{point.statement()}</p><ul data-found=""></ul></div>
            <span class="proof-word" data-word="">"Waiting"</span>
        </li>
    }
    .into_any()
}

/// Renders the command that verifies on another machine.
fn render_command(certificate: &Certificate) -> AnyView {
    let job = certificate.job.id;
    let model = certificate.artifacts.iter().find(|file| file.name.ends_with(".safetensors"));
    let model = model.map_or_else(String::new, |file| format!(" --model {}", file.name));
    let command = format!("undertone-server certificate verify certificate-{job}.json{model} --server-key HEX");
    view! {
        <p>"Verify the file on any machine with the program; this needs no network and no account."</p>
        <p><code>{command}</code></p>
        <p class="hint">"HEX is the key of the server: the "<code>"server_key"</code>" in the configuration of a worker, which the worker \
            received at its enrolment. A key from this page or from the file proves nothing by itself. The program checks \
            every signature, counts the receipts, recomputes every ε and lists each violation. "
            {format!("The figures were computed with formulas {} of version {}. ", certificate.issuer.evaluator, certificate.issuer.program)}
            "The format of the file is defined by a "<a href="/api/v1/schemas/certificate.json">"JSON Schema"</a>"."</p>
        <p class="hint">"A site verifies with the key of its enrolment: "<code>"undertone-worker certificate FILE"</code>"."</p>
    }
    .into_any()
}
