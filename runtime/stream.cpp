#include "runtime/stream.h"

#include <fmt/format.h>

#include <utility>

#include "compiler/support/diagnostic.h"

namespace astatide::runtime {

Stream Stream::create(const Context& context) {
  const ScopedCurrent scope(context);
  Stream stream(context, nullptr);
  driver().check(driver().api().stream_create(&stream.handle_, kStreamNonBlocking), "create a stream");
  stream.owned_ = std::shared_ptr<const Owned>(new Owned{context, stream.handle_});
  return stream;
}

Stream Stream::borrow(const Context& context, StreamHandle handle) { return Stream(context, handle); }

void Stream::synchronize() const {
  const ScopedCurrent scope(context());
  driver().check(driver().api().stream_synchronize(handle()), "wait for a stream of cuda:", context().device().ordinal);
}

bool Stream::is_capturing() const {
  // The default stream cannot be captured, and asking about it while another one is breaks that capture.
  if (handle() == nullptr) return false;
  const ScopedCurrent scope(context());
  int status = kCaptureStatusNone;
  check(driver().api().stream_is_capturing(handle(), &status), "ask whether a stream is captured");
  return status != kCaptureStatusNone;
}

void Stream::refuse_if_of_another_context() const {
  const auto ask = driver().api().stream_get_ctx;
  ContextHandle own = nullptr;
  if (handle() == nullptr || ask == nullptr || ask(handle(), &own) != DriverResult::success) return;
  if (own == nullptr || own == context().handle()) return;
  const int theirs = Context::borrow(own).device().ordinal, ours = context().device().ordinal;
  throw UserError(theirs != ours
                      ? fmt::format("the stream is one of cuda:{}, the launch runs on cuda:{}", theirs, ours)
                      : fmt::format("the stream belongs to another context of cuda:{} than the launch", ours),
                  {"a launch runs in the current context where it is one of its device, else in the primary one"});
}

Stream::Owned::~Owned() {
  release_in(context, [&] { driver().api().stream_destroy(handle); });
}

OutsideCapture::OutsideCapture() {
  driver().check(driver().api().thread_exchange_stream_capture_mode(&mode_), "step out of a capture");
}

OutsideCapture::~OutsideCapture() { driver().api().thread_exchange_stream_capture_mode(&mode_); }

Event::Event(const Context& context) : context_(context) {
  const ScopedCurrent scope(context_);
  driver().check(driver().api().event_create(&handle_, kEventDefault), "create an event");
}

Event::Event(Event&& other) noexcept : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}

Event::~Event() {
  if (handle_ != nullptr) release_in(context_, [&] { driver().api().event_destroy(handle_); });
}

void Event::record(const Stream& stream) {
  const ScopedCurrent scope(context_);
  driver().check(driver().api().event_record(handle_, stream.handle()), "record an event");
}

void Event::synchronize() const {
  const ScopedCurrent scope(context_);
  driver().check(driver().api().event_synchronize(handle_), "wait for an event");
}

double Event::milliseconds_since(const Event& start) const {
  const ScopedCurrent scope(context_);
  float milliseconds = 0;
  driver().check(driver().api().event_elapsed_time(&milliseconds, start.handle_, handle_),
                 "take the time between two events");
  return static_cast<double>(milliseconds);
}

}  // namespace astatide::runtime
