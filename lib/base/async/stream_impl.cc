#include "lib/base/async/stream_impl.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace pen::async {

using detail::Waiter;
using Outcome = Transport::Outcome;
using Want = Transport::Want;

namespace {
constexpr std::size_t kMinRoom = 4096;
constexpr int kReadsPerEvent = 8;  // a fast peer must not hold the loop
// How many reads of one stream may end at once before other streams get their turn.
constexpr unsigned kReadsPerTurn = 128;
constexpr std::size_t kMaxPieces = 64;

Outcome from_errno_of(Want want) {
  if (errno == EAGAIN || errno == EINTR) return {.bytes = 0, .want = want, .error = 0};
  return {.bytes = 0, .want = Want::nothing, .error = errno};
}
}  // namespace

Stream::Impl::Impl(Loop& l, Fd f) : loop(l), fd(std::move(f)), poll(l, *this) {
  run = [](EndOfTurn& node) { static_cast<Impl&>(node).pump_output(); };
}

Stream::Impl::~Impl() {
  if (direct) direct->impl = nullptr;
  if (step) step->impl = nullptr;
  close();
}

Stream::Impl::Step::~Step() {
  if (impl) impl->step = nullptr;
}

Stream::Impl::Direct::~Direct() {
  if (!impl) return;
  impl->direct = nullptr;
  impl->out += late;
  if (!done() && begun && impl->open && !impl->error && !impl->hung_up) {
    impl->fail_with(Error(WaitError::cancelled, "given up inside a larger write"));
  }
  if (impl->open && impl->output_pending()) impl->loop.at_end_of_turn(*impl);
}

void Stream::Impl::set_need(Need n, std::size_t size) {
  need = n;
  need_size = size;
  scanned = 0;
}

bool Stream::Impl::satisfied() {
  switch (need) {
    case Need::met:
      return true;
    case Need::some:
      return in.size() != 0;
    case Need::size:
      return in.size() >= need_size;
    case Need::line: {
      const std::string_view text = in.view().substr(0, need_size + 1);
      if (text.find('\n', scanned) != std::string_view::npos) return true;
      scanned = text.size();
      return text.size() > need_size;
    }
    case Need::discard: {
      const std::string_view text = in.view();
      if (const auto at = text.find('\n'); at != std::string_view::npos) {
        in.consume(at + 1);
        need = Need::met;
        return true;
      }
      in.consume(text.size());
      return false;
    }
    case Need::handshake:
      return false;
  }
  return false;
}

bool Stream::Impl::pump_input() {
  if (satisfied()) return true;
  for (int i = 0; i < kReadsPerEvent; ++i) {
    if (!open || eof || error) return true;
    if (drained) return false;
    const std::size_t missing = need == Need::size ? need_size - in.size() : 0;
    if (!fill(std::max(kMinRoom, missing))) return !open || eof || error;
    if (satisfied()) return true;
  }
  return false;
}

bool Stream::Impl::fill(std::size_t min_room) {
  std::span<std::byte> room = in.room(min_room);
  if (read_limit != nullptr && *read_limit != 0)
    room = room.first(std::min(room.size(), std::max<std::size_t>(*read_limit, min_room)));
  Outcome got;
  if (transport) {
    got = transport->read(room);
  } else {
    if (family == Family::unknown) {
      int domain = 0;
      socklen_t size = sizeof domain;
      ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
      family = domain == AF_UNIX ? Family::unix : Family::other;
    }
    if (family == Family::unix) {
      if (!receive_fds(room, got)) return false;
    } else {
      const ssize_t n = ::recv(fd.get(), room.data(), room.size(), 0);
      got = n < 0 ? from_errno_of(Want::read) : Outcome{.bytes = static_cast<std::size_t>(n)};
    }
    drained = got.bytes < room.size();
  }
  read_wants_write = got.want == Want::write;
  if (got.bytes != 0) {
    in.added(got.bytes);
    return true;
  }
  if (got.error != 0) {
    fail_with_outcome(got, "read");
  } else if (got.want == Want::nothing) {
    eof = true;
  } else {
    drained = true;
  }
  return false;
}

bool Stream::Impl::receive_fds(std::span<std::byte> into, Outcome& outcome) {
  iovec piece{into.data(), into.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = ::recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  if (n < 0) {
    outcome = from_errno_of(Want::read);
    return true;
  }
  outcome = {.bytes = static_cast<std::size_t>(n)};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    if (!fds) fds = std::make_unique<Fds>();
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof received);
      fds->incoming.emplace_back(received);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0 || (fds && fds->incoming.size() > kMaxFds)) {
    fail_with_errno(EMSGSIZE, "too many descriptors received");
    return false;
  }
  return true;
}

Result<void> Stream::Impl::input_outcome() {
  if (satisfied()) return {};
  if (!open) return pen::fail(WaitError::closed);
  if (hung_up) return pen::fail(*hung_up);  // the earlier of the two, and more precise than "end of input"
  if (error) return pen::fail(*error);
  return pen::fail(WaitError::closed);
}

bool Stream::Impl::over_budget() {
  if (budget_turn != loop.turn()) {
    budget_turn = loop.turn();
    budget_used = 0;
  }
  return ++budget_used > kReadsPerTurn;
}

bool InputAwaiter::await_ready() {
  if (!s.pump_input()) return false;
  deferred = s.over_budget();
  return !deferred;
}

void Stream::Impl::watch_input() {
  const int rc = read_wants_write ? poll.want_write(fd.get()) : poll.want_read(fd.get());
  if (read_wants_write) write_armed = true;
  if (rc != 0) fail_with_errno(rc, "watch");
}

void InputAwaiter::await_suspend(std::coroutine_handle<> h) {
  if (deferred) return waiter.defer(h);
  s.in.shrink();
  s.reader.push_back(waiter.queue_link);
  waiter.suspend(h, until);
  // A reader that waits for an answer has nothing more to write in this turn: send its output now.
  if (!waiter.settled() && s.linked()) {
    s.unlink();
    s.pump_output();
  }
  if (waiter.settled()) return;
  s.watch_input();
  // Input may be left unread after kReadsPerEvent. The socket then reports a readable event at once; input held inside
  // a transport is not reported, so look at it in the next turn.
  if (s.transport && !s.drained && !waiter.settled()) s.loop.at_end_of_turn(s);
}

void Stream::Impl::step_handshake() {
  const Outcome got = transport ? transport->handshake() : Outcome{};
  read_wants_write = got.want == Want::write;
  wants_answer = got.want == Want::answer;
  if (got.error != 0) return fail_with_outcome(got, "handshake");
  if (wants_answer) return;
  if (got.want != Want::nothing) return watch_input();
  need = Need::met;
  drained = false;  // data behind the handshake may be inside the transport already
  Waiter::settle_first(reader, Waiter::Outcome::done);
}

void Stream::Impl::ready_for_step(bool readable, bool writable) {
  if (wants_answer) {  // what the peer sends meanwhile is read afterwards
    if (readable) poll.drop_read();
    if (writable) poll.drop_write();
    write_armed = false;
    return;
  }
  const bool its_turn = read_wants_write ? writable : readable;
  // Drop interest in an event that nobody waits for, or that was reported already and waits in the queue:
  // level-triggered events would come again in each turn.
  const bool told = step->linked();
  if (readable && (told || read_wants_write)) poll.drop_read();
  if (writable && (told || !read_wants_write)) {
    poll.drop_write();
    write_armed = false;
  }
  if (its_turn) detail::run_when_there_is_time(loop, *step);
}

void HandshakeAwaiter::await_suspend(std::coroutine_handle<> h) {
  s.reader.push_back(waiter.queue_link);
  waiter.suspend(h, until);
  if (waiter.settled()) return;
  step.impl = &s;
  step.waiter = &waiter;
  step.run = [](detail::EndOfTurn& node) {
    const auto& self = static_cast<Stream::Impl::Step&>(node);
    if (!self.waiter->settled()) self.impl->step_handshake();
  };
  s.step = &step;
  if (s.transport)
    s.transport->wake = [self = &s] {
      if (self->step != nullptr && self->wants_answer) detail::run_when_there_is_time(self->loop, *self->step);
    };
  detail::run_when_there_is_time(s.loop, step);
}

Result<void> InputAwaiter::await_resume() {
  using O = Waiter::Outcome;
  if (const O o = waiter.outcome(); o != O::pending && o != O::done) return waiter.result();
  return s.input_outcome();
}

Result<void> HandshakeAwaiter::await_resume() {
  using O = Waiter::Outcome;
  // A closed stream may be gone: do not touch it.
  if (const O o = waiter.outcome(); o != O::pending && o != O::done) return waiter.result();
  return s.input_outcome();
}

void OutputAwaiter::await_suspend(std::coroutine_handle<> h) {
  s.writer.push_back(waiter.queue_link);
  waiter.suspend(h, until);
}

Result<void> OutputAwaiter::await_resume() {
  using O = Waiter::Outcome;
  if (const O o = waiter.outcome(); o != O::pending && o != O::done) return waiter.result();
  if (s.hung_up) return pen::fail(*s.hung_up);
  if (s.error) return pen::fail(*s.error);
  if (!s.open) return pen::fail(WaitError::closed);
  return {};
}

Outcome Stream::Impl::send(std::span<const Bytes> pieces) {
  if (transport) return transport->write(pieces);
  std::array<iovec, kMaxPieces> io;
  const std::size_t count = std::min(pieces.size(), io.size());
  for (std::size_t i = 0; i < count; ++i) {
    io[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = io.data();
  message.msg_iovlen = count;
  const ssize_t n = ::sendmsg(fd.get(), &message, MSG_NOSIGNAL);
  if (n < 0) return from_errno_of(Want::write);
  return {.bytes = static_cast<std::size_t>(n)};
}

// The first batch of descriptors lies within the queued text.
Outcome Stream::Impl::send_with_fds(Bytes text) {
  auto& batches = fds->outgoing;
  const std::uint64_t first = batches.front().position - total_sent;
  if (first != 0) {
    const Bytes before = text.first(std::min<std::size_t>(text.size(), first));
    return send({&before, 1});
  }
  std::size_t size = text.size();
  if (batches.size() > 1) size = std::min<std::size_t>(size, batches[1].position - total_sent);
  const auto& passed = batches.front().fds;
  iovec piece{const_cast<std::byte*>(text.data()), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * passed.size());
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * passed.size());
  for (std::size_t i = 0; i < passed.size(); ++i) {
    const int number = passed[i].get();
    std::memcpy(CMSG_DATA(c) + i * sizeof(int), &number, sizeof number);
  }
  const ssize_t n = ::sendmsg(fd.get(), &message, MSG_NOSIGNAL);
  if (n < 0) return from_errno_of(Want::write);
  batches.pop_front();
  return {.bytes = static_cast<std::size_t>(n)};
}

void Stream::Impl::sent(std::size_t bytes) {
  total_sent += bytes;
  const std::size_t from_out = std::min(bytes, queued());
  out_sent += from_out;
  bytes -= from_out;
  if (out_sent == out.size()) {
    if (out.capacity() > 64) {
      detail::return_text(std::move(out));
      out = std::string();
    }
    out.clear();
    out_sent = 0;
  } else if (out_sent > 1024 * 1024) {
    out.erase(0, out_sent);
    out_sent = 0;
  }
  if (bytes != 0) direct->begun = true;
  while (bytes != 0) {
    const std::size_t left = direct->pieces[direct->piece].size() - direct->offset;
    if (bytes < left) {
      direct->offset += bytes;
      return;
    }
    bytes -= left;
    ++direct->piece;
    direct->offset = 0;
  }
}

void Stream::Impl::pump_output() {
  if (!open || connecting) return;
  // The transport may hold input that the socket's readiness does not show.
  if (transport && !drained && !step) {
    if (Waiter* w = Waiter::first(reader)) {
      if (pump_input()) {
        w->settle(Waiter::Outcome::done);
      } else if (!drained) {
        loop.at_end_of_turn(*this);
      }
    }
    if (!open) return;
  }
  bool blocked = false;
  write_wants_read = false;
  while (!error && !blocked && output_pending()) {
    std::array<Bytes, kMaxPieces> pieces;
    std::size_t count = 0;
    if (queued() != 0) pieces[count++] = as_bytes(std::string_view(out).substr(out_sent));
    const bool with_fds = fds && !fds->outgoing.empty();
    if (direct && !with_fds) {
      for (std::size_t i = direct->piece; i < direct->pieces.size() && count < pieces.size(); ++i) {
        const Bytes piece = direct->pieces[i].subspan(i == direct->piece ? direct->offset : 0);
        if (!piece.empty()) pieces[count++] = piece;
      }
    }
    if (count == 0) {  // only empty pieces are left
      direct->piece = direct->pieces.size();
      break;
    }
    const Outcome put = with_fds ? send_with_fds(pieces[0]) : send({pieces.data(), count});
    if (put.bytes != 0) {
      sent(put.bytes);
    } else if (put.error != 0) {
      fail_output(put);
    } else if (put.want == Want::read) {
      write_wants_read = blocked = true;
      if (const int rc = poll.want_read(fd.get()); rc != 0) fail_with_errno(rc, "watch");
    } else {
      blocked = write_armed = true;
      if (const int rc = poll.want_write(fd.get()); rc != 0) fail_with_errno(rc, "watch");
    }
    // The transport may be sending a record that holds the beginning of the pieces: they cannot be withdrawn any more.
    if (blocked && transport && direct) direct->begun = true;
  }
  if (error || hung_up || !open) return;
  if (write_armed && !blocked && !read_wants_write) {
    write_armed = false;
    poll.drop_write();
  }
  if (!output_pending()) {
    Waiter::settle_all(writer, Waiter::Outcome::done);
  }
}

void Stream::Impl::on_ready(bool readable, bool writable) {
  if (connecting) {
    if (!writable) return;
    connecting = false;
    write_armed = false;
    poll.drop_write();
    Waiter::settle_first(writer, Waiter::Outcome::done);
    return;
  }
  if (step) return ready_for_step(readable, writable);
  if (readable || read_wants_write) {
    drained = false;
    if (Waiter* w = Waiter::first(reader)) {
      if (pump_input())
        w->settle(Waiter::Outcome::done);
      else if (transport && open)
        watch_input();  // the transport may want the other direction now
    } else if (readable && !write_wants_read) {
      poll.drop_read();
    }
    if (!open) return;
  }
  if (writable || write_wants_read) pump_output();
}

void Stream::Impl::fail_output(const Outcome& outcome) {
  // After a failed write a transport cannot be read from any more.
  if (transport || (outcome.error != EPIPE && outcome.error != ECONNRESET)) return fail_with_outcome(outcome, "write");
  hung_up = std::make_unique<Error>(Error::from_errno(outcome.error, "write"));
  if (write_armed) poll.drop_write();
  drop_output();
  Waiter::settle_all(writer, Waiter::Outcome::done);
}

void Stream::Impl::drop_output() {
  write_armed = false;
  out.clear();
  out_sent = 0;
  if (fds) fds->outgoing.clear();
}

void Stream::Impl::fail_with(Error e) {
  if (!error) error = std::make_unique<Error>(std::move(e));
  poll.detach();
  drop_output();
  Waiter::settle_all(reader, Waiter::Outcome::done);
  Waiter::settle_all(writer, Waiter::Outcome::done);
}

void Stream::Impl::fail_with_errno(int value, const char* what) { fail_with(Error::from_errno(value, what)); }

void Stream::Impl::fail_with_outcome(const Outcome& outcome, const char* what) {
  const std::string said = transport ? transport->explain() : std::string();
  fail_with(Error::from_errno(outcome.error, said.empty() ? what : said));
}

void Stream::Impl::close() {
  if (!open) return;
  open = false;
  EndOfTurn::unlink();
  poll.detach();
  transport.reset();
  fd.reset();
  out = std::string();
  out_sent = 0;
  fds.reset();
  Waiter::settle_all(reader, Waiter::Outcome::closed);
  Waiter::settle_all(writer, Waiter::Outcome::closed);
}

}  // namespace pen::async
