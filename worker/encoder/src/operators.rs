//! The operators of ONNX that a graph may have.
//!
//! Each computes its outputs from its inputs alone, without a state, a random number or a graph of its own. The list is
//! one for the check of the file and for the program that runs it. To add an operator: its name in the list below, and in
//! the table of `docs/src/how-to/train-on-tables.md`.

use rten::{OpRegistry, op_registry};

/// Defines the list and the registry of the same operators.
macro_rules! accept_operators {
    ($($operator:ident),* $(,)?) => {
        /// The accepted operators of the domain of ONNX.
        pub const OPERATORS: &[&str] = &["Constant", $(stringify!($operator)),*];

        /// Returns the registry of the accepted operators. Constants need none.
        pub(crate) fn create_registry() -> OpRegistry {
            op_registry!($($operator),*)
        }
    };
}

accept_operators!(
    // Dense, convolution, pooling, recurrent.
    MatMul,
    Gemm,
    Einsum,
    Conv,
    ConvTranspose,
    AveragePool,
    MaxPool,
    GlobalAveragePool,
    LSTM,
    GRU,
    // Normalization and activation.
    BatchNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    Softmax,
    LogSoftmax,
    Relu,
    LeakyRelu,
    PRelu,
    Elu,
    Gelu,
    Sigmoid,
    HardSigmoid,
    HardSwish,
    Softplus,
    Softsign,
    Tanh,
    Erf,
    // Element by element.
    Abs,
    Add,
    And,
    Cast,
    Ceil,
    Clip,
    Cos,
    Div,
    Equal,
    Exp,
    Floor,
    Greater,
    GreaterOrEqual,
    Identity,
    IsInf,
    IsNaN,
    Less,
    LessOrEqual,
    Log,
    Max,
    Mean,
    Min,
    Mod,
    Mul,
    Neg,
    Not,
    Or,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sqrt,
    Sub,
    Sum,
    Where,
    Xor,
    // Over an axis.
    ArgMax,
    ArgMin,
    CumSum,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    TopK,
    // Shapes and selections.
    Concat,
    ConstantOfShape,
    DepthToSpace,
    Expand,
    Flatten,
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    Pad,
    Range,
    Reshape,
    Resize,
    ScatterElements,
    ScatterND,
    Shape,
    Size,
    Slice,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Trilu,
    Unsqueeze,
    // Quantized weights.
    ConvInteger,
    DequantizeLinear,
    DynamicQuantizeLinear,
    MatMulInteger,
    QuantizeLinear,
);

/// Returns the reason why an operator is refused, and the remedy.
pub(crate) fn explain_refusal(operator: &str) -> &'static str {
    match operator {
        "If" | "Loop" | "Scan" | "SequenceMap" => {
            "which is control flow, and its work could depend on values: export the graph without branches and loops"
        }
        "Bernoulli" | "Multinomial" | "RandomNormal" | "RandomNormalLike" | "RandomUniform" | "RandomUniformLike" => {
            "which is random: an encoder gives the same numbers for the same row"
        }
        "Dropout" => "which belongs to training: export the graph in the mode of inference",
        _ => "which is not accepted: see the operators in the documentation of frozen encoders",
    }
}

/// The reason for an operator in its form for training.
pub(crate) const TRAINING: &str =
    "in the mode of training, which reads several rows: export it in the mode of inference";
/// The reason for an operator of another domain than that of ONNX.
pub(crate) const DOMAIN: &str = "which is not of ONNX's own domain: export the graph with standard operators alone";

#[cfg(test)]
mod tests {
    use super::OPERATORS;

    #[test]
    fn documentation_lists_the_accepted_operators() {
        let page = include_str!("../../../docs/src/how-to/train-on-tables.md");
        let missing: Vec<_> = OPERATORS.iter().filter(|operator| !page.contains(&format!("`{operator}`"))).collect();
        assert_eq!(missing, [&""; 0]);
    }
}
