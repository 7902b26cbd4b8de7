// Verifies a certificate in its page, and ticks each check when its finding arrives: the page works without it, then a terminal verifies.
const STATES = {
    waiting: ['○', 'Waiting'],
    passed: ['✓', 'Passed'],
    failed: ['✕', 'Failed'],
    unchecked: ['–', 'Not checked'],
    skipped: ['–', 'Not reached'],
};
// Milliseconds between two ticks, so that an eye can follow.
const PAUSE = matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 120;

const mark = (item, state, texts = []) => {
    const [symbol, word] = STATES[state];
    item.setAttribute('data-state', state);
    item.querySelector('[data-mark]').textContent = symbol;
    item.querySelector('[data-word]').textContent = word;
    item.querySelector('[data-found]').replaceChildren(...texts.map(text => {
        const line = document.createElement('li');
        line.textContent = text;
        return line;
    }));
};

// The findings of the worker, one by one.
async function* findings(input) {
    const worker = new Worker('/assets/verify-worker.js', { type: 'module' });
    const arrived = [];
    let wake = () => {};
    worker.onmessage = ({ data }) => { arrived.push(data); wake(); };
    worker.onerror = () => { arrived.push({ error: 'the code of the verification did not load' }); wake(); };
    worker.postMessage(input);
    try {
        for (;;) {
            while (arrived.length === 0) await new Promise(resolve => { wake = resolve; });
            const finding = arrived.shift();
            if (finding.error) throw new Error(finding.error);
            if (!finding.point) return;
            yield finding;
        }
    } finally {
        worker.terminate();
    }
}

class OtherJobError extends Error {}

// Returns the text of the certificate. The download must be of the page's job; a file of the reader may be of any job.
const load = async form => {
    const own = form.elements.certificate.files[0];
    if (own) return own.text();
    const answer = await fetch(form.getAttribute('data-verify'), { headers: { accept: 'application/json' } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const text = await answer.text();
    const { job } = JSON.parse(JSON.parse(text).payload);
    if (job?.id !== form.getAttribute('data-job')) throw new OtherJobError('The file is of another job.');
    return text;
};

// A file names its own key, so a verdict without a known key is weaker.
const conclude = (counts, hasServerKey) => {
    if (counts.failed) {
        return `This certificate does not hold: ${counts.failed} of ${counts.failed + counts.passed} checks failed.`;
    }
    if (!hasServerKey) {
        const open = `No check failed: ${counts.passed} passed, ${counts.unchecked} not checked.`;
        return `${open} The server’s key was not compared with a known key.`;
    }
    const open = counts.unchecked ? ` ${counts.unchecked} not checked, with the reason in the line.` : '';
    return `This certificate holds: ${counts.passed} checks passed.${open}`;
};

const verify = async form => {
    const verdict = form.querySelector('[data-verdict]');
    const items = new Map(Array.from(form.querySelectorAll('[data-point]'), item => [item.getAttribute('data-point'), item]));
    const counts = { passed: 0, failed: 0, unchecked: 0 };
    const say = (text, state) => { verdict.textContent = text; verdict.setAttribute('data-state', state); };
    form.querySelector('[data-checks]').hidden = false;
    items.forEach(item => mark(item, 'waiting'));
    say('Verifying…', 'waiting');
    try {
        const input = {
            text: await load(form),
            serverKey: form.elements.server_key.value,
            siteKeys: form.elements.site_keys.value,
            model: form.elements.model.files[0],
        };
        for await (const { point, state, texts } of findings(input)) {
            mark(items.get(point), state, texts);
            counts[state] += 1;
            await new Promise(resolve => setTimeout(resolve, PAUSE));
        }
        form.querySelectorAll('[data-state=waiting][data-point]').forEach(item => mark(item, 'skipped'));
        say(conclude(counts, input.serverKey.trim() !== ''), counts.failed ? 'failed' : 'passed');
    } catch (error) {
        say(error instanceof OtherJobError ? `Failed: ${error.message}`
            : `Nothing was verified: ${error.message}. Use the command below.`, 'failed');
    }
};

for (const form of document.querySelectorAll('form[data-verify]')) {
    const button = form.querySelector('button');
    form.hidden = false;
    form.addEventListener('submit', async event => {
        event.preventDefault();
        button.disabled = true;
        await verify(form);
        button.disabled = false;
    });
}
