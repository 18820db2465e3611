#include "lib/base/async/stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/async/stream_impl.h"

namespace pen::async {

using Need = Stream::Impl::Need;

Stream::Stream(Loop& loop, Fd fd) : impl_(std::make_unique<Impl>(loop, std::move(fd))) {}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

// The coroutines below use the Impl, not the Stream: a Stream may be moved while one of its reads waits.
namespace {

Task<Result<std::string_view>> read_until_lf(Stream::Impl& s, std::size_t max, Until until, bool raw) {
  s.set_need(Need::line, max);
  PEN_CO_TRY((co_await InputAwaiter{s, until, detail::Waiter(s.loop)}));
  const auto at = s.in.view().substr(0, max + 1).find('\n');
  if (at == std::string_view::npos) co_return fail(WaitError::line_too_long);
  std::string_view line = s.in.view().substr(0, at + 1);
  s.in.consume(at + 1);
  if (!raw) {
    line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  co_return line;
}

Task<Result<void>> discard(Stream::Impl& s, Until until) {
  s.set_need(Need::discard, 0);
  co_return co_await InputAwaiter{s, until, detail::Waiter(s.loop)};
}

Task<Result<std::string_view>> read_bytes(Stream::Impl& s, Need need, std::size_t size, Until until) {
  if (size == 0) co_return std::string_view();
  s.set_need(need, size);
  PEN_CO_TRY((co_await InputAwaiter{s, until, detail::Waiter(s.loop)}));
  const std::string_view text = s.in.view().substr(0, size);
  s.in.consume(text.size());
  co_return text;
}

Task<Result<void>> drain(Stream::Impl& s, Until until) {
  s.pump_output();
  co_return co_await OutputAwaiter{s, until, detail::Waiter(s.loop)};
}

Task<Result<void>> write_pieces(Stream::Impl& s, std::span<const Bytes> pieces, Until until) {
  PEN_CHECK(!s.direct, "one writer at a time");
  Stream::Impl::Direct direct{.impl = &s, .pieces = pieces, .late = {}};
  s.direct = &direct;
  s.pump_output();
  co_return co_await OutputAwaiter{s, until, detail::Waiter(s.loop)};
}

Task<Result<void>> greet(Stream::Impl& s, Until until) {
  s.set_need(Need::handshake, 0);
  co_return co_await HandshakeAwaiter{s, until, detail::Waiter(s.loop)};
}

Task<Result<void>> end_output(Stream::Impl& s, Until until) {
  PEN_CO_TRY(co_await drain(s, until));
  if (s.transport) {
    if (const auto put = s.transport->close_write(); put.error != 0) co_return fail_errno("close", put.error);
  }
  if (::shutdown(s.fd.get(), SHUT_WR) != 0 && errno != ENOTCONN) co_return fail_errno("shutdown");
  co_return Result<void>{};
}

}  // namespace

Task<Result<std::string_view>> Stream::read_line(std::size_t max, Until until) {
  return read_until_lf(*impl_, max, until, false);
}
Task<Result<std::string_view>> Stream::read_raw_line(std::size_t max, Until until) {
  return read_until_lf(*impl_, max, until, true);
}
Task<Result<void>> Stream::discard_line(Until until) { return discard(*impl_, until); }
Task<Result<std::string_view>> Stream::read_some(std::size_t max, Until until) {
  return read_bytes(*impl_, Need::some, max, until);
}
Task<Result<std::string_view>> Stream::read_exact(std::size_t size, Until until) {
  return read_bytes(*impl_, Need::size, size, until);
}

std::string_view Stream::buffered() const { return impl_->in.view(); }
bool Stream::line_buffered() const { return buffered().find('\n') != std::string_view::npos; }
void Stream::consume(std::size_t size) {
  PEN_CHECK(size <= impl_->in.size());
  impl_->in.consume(size);
}
void Stream::shrink_input() { impl_->in.shrink(); }
void Stream::limit_reads(const std::uint32_t* most) { impl_->read_limit = most; }
bool Stream::poll_input() {
  Impl& s = *impl_;
  if (s.open && !s.eof && !s.error && s.in.size() == 0) s.fill(1);
  return s.in.size() != 0;
}

void Stream::write(std::string_view text) {
  Impl& s = *impl_;
  if (!s.open || s.error || s.hung_up || text.empty()) return;
  if (s.direct) {
    s.direct->late += text;
    return;
  }
  if (s.out.capacity() < 64) s.out = detail::borrow_text();
  s.out += text;
  s.loop.at_end_of_turn(s);
}

std::size_t Stream::queued() const { return impl_->queued(); }
Task<Result<void>> Stream::flush(Until until) { return drain(*impl_, until); }
Task<Result<void>> Stream::write_all(std::span<const Bytes> pieces, Until until) {
  return write_pieces(*impl_, pieces, until);
}
Task<Result<void>> Stream::shutdown(Until until) { return end_output(*impl_, until); }
void Stream::close() { impl_->close(); }
bool Stream::is_open() const { return impl_->open; }
bool Stream::broken() const { return impl_->error || impl_->hung_up; }

void Stream::start_transport(std::unique_ptr<Transport> transport) {
  PEN_CHECK(impl_->in.size() == 0, "plaintext is buffered: it must not be read as if it came encrypted");
  PEN_CHECK(impl_->queued() == 0, "flush before start_transport()");
  impl_->transport = std::move(transport);
  impl_->drained = false;
}

Task<Result<void>> Stream::handshake(Until until) { return greet(*impl_, until); }

bool Stream::cut_short() const { return impl_->transport && impl_->transport->cut_short(); }

int Stream::fd() const { return impl_->fd.get(); }
Loop& Stream::loop() const { return impl_->loop; }

std::string& Stream::compose() {
  Impl& s = *impl_;
  if (!s.open || s.error || s.hung_up) {
    static thread_local std::string dropped;
    dropped.clear();
    return dropped;
  }
  if (s.direct) return s.direct->late;
  if (s.out.capacity() < 64) s.out = detail::borrow_text();
  s.loop.at_end_of_turn(s);
  return s.out;
}

void Stream::write_with_fds(std::string_view text, std::span<Fd> passed) {
  PEN_CHECK(!text.empty());
  attach_fds(passed);
  write(text);
}

void Stream::attach_fds(std::span<Fd> passed) {
  Impl& s = *impl_;
  PEN_CHECK(passed.size() <= kMaxFds && !s.direct);
  if (!s.open || s.error || s.hung_up || passed.empty()) return;
  if (!s.fds) s.fds = std::make_unique<Impl::Fds>();
  auto& batch = s.fds->outgoing.emplace_back();
  batch.position = s.total_sent + s.queued();
  for (Fd& fd : passed) batch.fds.push_back(std::move(fd));
}

std::vector<Fd> Stream::take_fds() {
  if (!impl_->fds) return {};
  return std::exchange(impl_->fds->incoming, {});
}

}  // namespace pen::async
