//! Named layers in sequence, some of them frozen.
//!
//! A frozen part computes like any other, but its parameters are not trained. It has no gradient, so it adds nothing to
//! a norm, gets no noise, and is not released. Derivatives are not propagated below the first trained part.

use std::any::Any;
use std::ops::Range;

use burn::tensor::Tensor;

use super::{Backward, Gradient, GradientPiece, GradientRequest, Layer, Layout, Parameters};

/// Reasons why layers do not form a stack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// Two parts have the same name.
    #[error("two parts of the stack are named `{0}`: use a unique name for each part")]
    Twice(String),
    /// The width of a part differs from that of the part before it.
    #[error("part `{part}` takes {takes} numbers per frame, but the part before it returns {gives}: use equal widths")]
    Width {
        /// The part with the wrong input width.
        part: String,
        /// Its number of inputs.
        takes: usize,
        /// The number of outputs before it.
        gives: usize,
    },
    /// The part has no derivatives by its input, but parts before it need them.
    #[error("part `{0}` reads indices and has no derivatives by them: use it as the first part")]
    NotFirst(String),
    /// The stack has no part with this name.
    #[error("the stack has no part `{name}`: use one of {names}")]
    Unknown {
        /// The requested part.
        name: String,
        /// The parts of the stack.
        names: String,
    },
    /// All parts are frozen.
    #[error("no part of the stack is trained: name at least one part")]
    Frozen,
}

/// A [`Layer`] with a type-erased tape.
trait ErasedLayer: Send + Sync {
    fn layer_inputs(&self) -> usize;
    fn layer_outputs(&self) -> usize;
    fn layer_passes_back(&self) -> bool;
    fn start(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32);
    fn ahead(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, AnyTape);
    fn back(
        &self,
        parameters: &Parameters<'_>,
        tape: AnyTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward;
}

type AnyTape = Box<dyn Any + Send>;

impl<L: Layer> ErasedLayer for L {
    fn layer_inputs(&self) -> usize {
        self.inputs()
    }

    fn layer_outputs(&self) -> usize {
        self.outputs()
    }

    fn layer_passes_back(&self) -> bool {
        self.passes_back()
    }

    fn start(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        self.initialize(parameters, uniform);
    }

    fn ahead(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, AnyTape) {
        let (output, tape) = self.forward(parameters, input, layout);
        (output, Box::new(tape))
    }

    fn back(
        &self,
        parameters: &Parameters<'_>,
        tape: AnyTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        let tape = tape.downcast::<L::Tape>().expect("a stack hands each layer back the tape it wrote");
        self.backward(parameters, *tape, by_output, layout, request)
    }
}

struct StackPart {
    name: String,
    layer: Box<dyn ErasedLayer>,
    range: Range<usize>,
    frozen: bool,
}

/// Layers one after another.
pub struct Stack {
    parts: Vec<StackPart>,
}

/// State of a stack's forward pass: one tape per part, or none for zero rows.
pub struct StackTape(Vec<AnyTape>);

impl Stack {
    /// Returns a stack of one named layer, trained.
    pub fn with_layer(name: impl Into<String>, layer: impl Layer) -> Self {
        let range = 0..layer.parameters();
        Self { parts: vec![StackPart { name: name.into(), layer: Box::new(layer), range, frozen: false }] }
    }

    /// Appends a layer, trained.
    ///
    /// # Errors
    /// [`StackError`] if the name exists already, the width does not match, or the layer can only be the first.
    pub fn then(mut self, name: impl Into<String>, layer: impl Layer) -> Result<Self, StackError> {
        let name = name.into();
        if self.parts.iter().any(|part| part.name == name) {
            return Err(StackError::Twice(name));
        }
        if !layer.passes_back() {
            return Err(StackError::NotFirst(name));
        }
        let (takes, gives) = (layer.inputs(), Layer::outputs(&self));
        if takes != gives {
            return Err(StackError::Width { part: name, takes, gives });
        }
        let start = Layer::parameters(&self);
        let range = start..start + layer.parameters();
        self.parts.push(StackPart { name, layer: Box::new(layer), range, frozen: false });
        Ok(self)
    }

    /// Trains the named parts and freezes all others. This works only for a stack that is not a layer of another stack;
    /// a nested part is trained or frozen as a whole.
    ///
    /// # Errors
    /// [`StackError`] if a name matches no part, or `names` is empty.
    pub fn train_only<N: AsRef<str>>(&mut self, names: &[N]) -> Result<(), StackError> {
        if names.is_empty() {
            return Err(StackError::Frozen);
        }
        if let Some(unknown) = names.iter().find(|name| !self.parts.iter().any(|part| part.name == name.as_ref())) {
            let names: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
            return Err(StackError::Unknown { name: unknown.as_ref().to_owned(), names: names.join(", ") });
        }
        for part in &mut self.parts {
            part.frozen = !names.iter().any(|name| name.as_ref() == part.name);
        }
        Ok(())
    }

    /// Returns the name, the range in the flat vector of parameters, and true if trained, of each part in order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&str, Range<usize>, bool)> + '_ {
        self.parts.iter().map(|part| (part.name.as_str(), part.range.clone(), !part.frozen))
    }

    /// Returns the ranges of the trained parts in the flat vector of parameters, in order. A gradient of this stack
    /// covers these.
    pub fn trained(&self) -> Vec<Range<usize>> {
        self.parts.iter().filter(|part| !part.frozen).map(|part| part.range.clone()).collect()
    }

    /// Returns the output for an input, and the tape for [`Self::gradient`].
    pub fn run(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, StackTape) {
        self.forward(parameters, input, layout)
    }

    /// Returns the derivatives of the loss by the trained parts, given those by the output.
    pub fn gradient(
        &self,
        parameters: &Parameters<'_>,
        tape: StackTape,
        by_output: Tensor<2>,
        layout: &Layout,
    ) -> Gradient {
        let mut gradient = Gradient::new();
        let request = GradientRequest { by_input: false, gradient: true };
        let (_, pieces) = self.descend(parameters, tape, by_output, layout, request);
        for (part, pieces) in self.parts.iter().zip(pieces) {
            if !part.frozen {
                gradient.push(part.name.clone(), pieces);
            }
        }
        gradient
    }

    /// Propagates derivatives through all parts in reverse, and returns the pieces of each part, in order.
    fn descend(
        &self,
        parameters: &Parameters<'_>,
        tape: StackTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> (Option<Tensor<2>>, Vec<Vec<Box<dyn GradientPiece>>>) {
        let mut pieces: Vec<_> = self.parts.iter().map(|_| Vec::new()).collect();
        if layout.rows() == 0 {
            for (part, pieces) in self.parts.iter().zip(&mut pieces).filter(|(part, _)| !part.frozen) {
                let coordinates = parameters.part(part.range.clone()).coordinates();
                pieces.push(Box::new(EmptyPiece(coordinates)) as Box<dyn GradientPiece>);
            }
            return (request.by_input.then_some(by_output), pieces);
        }
        let lowest = self.parts.iter().position(|part| !part.frozen).filter(|_| request.gradient);
        let mut by_output = Some(by_output);
        for (index, (part, tape)) in self.parts.iter().zip(tape.0).enumerate().rev() {
            let needs = GradientRequest {
                by_input: request.by_input || lowest.is_some_and(|lowest| lowest < index),
                gradient: request.gradient && !part.frozen,
            };
            let Some(derivatives) = by_output.take().filter(|_| needs.by_input || needs.gradient) else { break };
            let back = part.layer.back(&parameters.part(part.range.clone()), tape, derivatives, layout, needs);
            (by_output, pieces[index]) = (back.by_input, back.pieces);
        }
        (by_output, pieces)
    }
}

impl Layer for Stack {
    type Tape = StackTape;

    fn inputs(&self) -> usize {
        self.parts.first().map_or(0, |part| part.layer.layer_inputs())
    }

    fn outputs(&self) -> usize {
        self.parts.last().map_or(0, |part| part.layer.layer_outputs())
    }

    fn parameters(&self) -> usize {
        self.parts.last().map_or(0, |part| part.range.end)
    }

    fn passes_back(&self) -> bool {
        self.parts.first().is_none_or(|part| part.layer.layer_passes_back())
    }

    fn initialize(&self, parameters: &mut [f32], uniform: &mut dyn FnMut() -> f32) {
        for part in &self.parts {
            part.layer.start(&mut parameters[part.range.clone()], uniform);
        }
    }

    fn forward(&self, parameters: &Parameters<'_>, input: Tensor<2>, layout: &Layout) -> (Tensor<2>, StackTape) {
        if layout.rows() == 0 {
            return (Tensor::zeros([0, self.outputs()], parameters.device()), StackTape(Vec::new()));
        }
        let mut tapes = Vec::with_capacity(self.parts.len());
        let mut rows = input;
        for part in &self.parts {
            let (output, tape) = part.layer.ahead(&parameters.part(part.range.clone()), rows, layout);
            rows = output;
            tapes.push(tape);
        }
        (rows, StackTape(tapes))
    }

    fn backward(
        &self,
        parameters: &Parameters<'_>,
        tape: StackTape,
        by_output: Tensor<2>,
        layout: &Layout,
        request: GradientRequest,
    ) -> Backward {
        assert!(self.parts.iter().all(|part| !part.frozen), "parts are frozen in the outermost stack");
        let (by_input, pieces) = self.descend(parameters, tape, by_output, layout, request);
        Backward { by_input, pieces: pieces.into_iter().flatten().collect() }
    }
}

/// The gradient of zero rows.
struct EmptyPiece(usize);

impl GradientPiece for EmptyPiece {
    fn parameters(&self) -> usize {
        self.0
    }

    fn squared_norms(&self, layout: &Layout) -> Vec<f64> {
        vec![0.0; layout.units()]
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn stream(&self, _layout: &Layout, _at: usize, _sink: &mut dyn super::GradientSink) {}

    fn add_to(&self, _target: &mut [f32]) {}
}
