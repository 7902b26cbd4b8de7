// Checks a certificate beside the page, with the wasm of the command lines' code: one message for each finding, then an empty one.
import init, { CertificateCheck, ModelFile } from '/pkg/certificate.js';

// Bytes of a model that are read at once.
const PART = 1 << 20;

const digest = async file => {
    const model = new ModelFile();
    for (let start = 0; start < file.size; start += PART) {
        model.update(new Uint8Array(await file.slice(start, start + PART).arrayBuffer()));
    }
    return model;
};

const check = async ({ text, serverKey, siteKeys, model }) => {
    await init({ module_or_path: '/pkg/certificate_bg.wasm' });
    const verification = new CertificateCheck(text, serverKey, siteKeys, model ? await digest(model) : undefined);
    for (let line = verification.check_next(); line !== undefined; line = verification.check_next()) {
        postMessage(JSON.parse(line));
    }
    postMessage({});
};

onmessage = ({ data }) => check(data).catch(error => postMessage({ error: String(error?.message ?? error) }));
