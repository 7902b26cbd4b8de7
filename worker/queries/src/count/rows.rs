//! The rows of an engine's answer, read from its stream one by one, never all at once.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::runtime::Runtime;

use super::CountError;

/// The threads of an engine. Dropping the last handle shuts them down without waiting, on any thread.
pub(super) struct EngineThreads(Option<Runtime>);

impl EngineThreads {
    pub(super) fn start(threads: usize) -> Result<Arc<Self>, CountError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("counting")
            .enable_all()
            .build()
            .map_err(|error| CountError::Engine(error.into()))?;
        Ok(Arc::new(Self(Some(runtime))))
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime().block_on(future)
    }

    /// Starts a task whose result is not awaited.
    #[cfg(feature = "cluster")]
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(future);
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only when dropped")
    }
}

impl Drop for EngineThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A plan, ready to run.
pub(super) struct ExecutablePlan {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    tasks: Arc<TaskContext>,
}

impl ExecutablePlan {
    pub(super) fn from_frame(threads: &EngineThreads, frame: &DataFrame) -> Result<Self, CountError> {
        Ok(Self { plan: threads.wait(frame.create_physical_plan())?, tasks: Arc::new(frame.task_ctx()) })
    }
}

/// A value that must live until the answer has been read, such as the file that executors read.
pub(super) type AnswerGuard = Box<dyn Send>;

struct RowStream {
    stream: SendableRecordBatchStream,
    plan: Arc<dyn ExecutionPlan>,
    batch: RecordBatch,
    row: usize,
    ended: bool,
    _held: AnswerGuard,
    threads: Arc<EngineThreads>,
}

impl RowStream {
    fn start(
        threads: &Arc<EngineThreads>,
        ExecutablePlan { plan, tasks }: ExecutablePlan,
        held: AnswerGuard,
    ) -> Result<Self, CountError> {
        let stream = threads.wait(async { execute_stream(Arc::clone(&plan), tasks) })?;
        let batch = RecordBatch::new_empty(stream.schema());
        Ok(Self { stream, plan, batch, row: 0, ended: false, _held: held, threads: Arc::clone(threads) })
    }

    /// Reads a value of the next row with `read`. After a failure there are no more rows.
    fn next<T>(
        &mut self,
        read: impl FnOnce(&RecordBatch, usize) -> Result<T, DataFusionError>,
    ) -> Option<Result<T, CountError>> {
        while !self.ended && self.row == self.batch.num_rows() {
            match self.threads.wait(self.stream.next()) {
                Some(Ok(batch)) => (self.batch, self.row) = (batch, 0),
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error.into()));
                }
                None => self.ended = true,
            }
        }
        if self.ended {
            return None;
        }
        let row = self.row;
        self.row += 1;
        Some(read(&self.batch, row).map_err(|error| {
            self.ended = true;
            error.into()
        }))
    }

    /// Returns the bytes spilled to disk by the parts of the plan that ran in this process.
    fn spilled(&self) -> u64 {
        fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
            let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
            plan.children().into_iter().fold(own as u64, |sum, child| sum + spilled_bytes(child))
        }
        spilled_bytes(&self.plan)
    }
}

/// Reads a text of the answer, in any of Arrow's string types.
fn text(batch: &RecordBatch, row: usize) -> Result<String, DataFusionError> {
    let column = batch.column(0);
    if column.is_null(row) {
        return Err(DataFusionError::Internal("a text is missing".to_owned()));
    }
    let text = column
        .as_string_view_opt()
        .map(|texts| texts.value(row))
        .or_else(|| column.as_string_opt::<i32>().map(|texts| texts.value(row)))
        .or_else(|| column.as_string_opt::<i64>().map(|texts| texts.value(row)));
    text.map(str::to_owned).ok_or_else(|| DataFusionError::Internal("the first column is no text".to_owned()))
}

/// Strings with their exact counts.
pub struct CountStream(RowStream);

impl CountStream {
    pub(super) fn start(
        threads: &Arc<EngineThreads>,
        planned: ExecutablePlan,
        held: AnswerGuard,
    ) -> Result<Self, CountError> {
        RowStream::start(threads, planned, held).map(Self)
    }

    /// Returns the bytes spilled so far; 0 when a cluster counts, which reports its own.
    pub fn spilled(&self) -> u64 {
        self.0.spilled()
    }
}

impl Iterator for CountStream {
    type Item = Result<(String, u64), CountError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(|batch, row| {
            let counts = batch.column(1).as_primitive_opt::<UInt64Type>();
            let counts = counts.ok_or_else(|| DataFusionError::Internal("the second column is no count".to_owned()))?;
            Ok((text(batch, row)?, counts.value(row)))
        })
    }
}

/// The texts of an answer, one for each remaining row.
pub struct TextStream(RowStream);

impl TextStream {
    pub(super) fn start(
        threads: &Arc<EngineThreads>,
        planned: ExecutablePlan,
        held: AnswerGuard,
    ) -> Result<Self, CountError> {
        RowStream::start(threads, planned, held).map(Self)
    }

    /// Returns the bytes spilled so far; 0 when a cluster counts, which reports its own.
    pub fn spilled(&self) -> u64 {
        self.0.spilled()
    }
}

impl Iterator for TextStream {
    type Item = Result<String, CountError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(text)
    }
}
