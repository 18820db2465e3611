#include "smtpd/policy_endpoint.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "smtpd/connecting.h"
#include "smtpd/policy_protocol.h"

namespace pen::smtpd {

using async::Task;
using async::WaitError;

std::string_view describe(PolicyServerError e) {
  switch (e) {
    case PolicyServerError::unreachable:
      return "cannot connect";
    case PolicyServerError::down:
      return "was down a moment ago";
    case PolicyServerError::busy:
      return "no connection became free in time";
  }
  return "unknown";
}

struct PolicyEndpoint::Connection {
  Connection(PolicyEndpoint& owner_in, async::Stream stream_in)
      : owner(owner_in), stream(std::move(stream_in)), made(owner.loop_.now()) {
    ++owner.counts_.open;
    ++owner.counts_.connections;
  }
  ~Connection() {
    --owner.counts_.open;
    owner.freed_.set();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  PolicyEndpoint& owner;
  async::Stream stream;
  SteadyTime made, used{};
  std::uint64_t transaction = 0;
  int requests = 0;
};

/// One of the permitted connections, and the place in the count of requests that wait for it.
class PolicyEndpoint::Place {
 public:
  explicit Place(PolicyEndpoint& endpoint) : endpoint_(endpoint) {
    auto& c = endpoint_.counts_;
    c.most_waiting = std::max(c.most_waiting, ++c.waiting);
  }
  ~Place() {
    if (taken_)
      endpoint_.places_.release();
    else
      --endpoint_.counts_.waiting;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  void took() {
    taken_ = true;
    --endpoint_.counts_.waiting;
  }

 private:
  PolicyEndpoint& endpoint_;
  bool taken_ = false;
};

/// The one attempt that goes ahead to a server that was down.
class PolicyEndpoint::Probe {
 public:
  explicit Probe(PolicyEndpoint& endpoint) : endpoint_(endpoint) {
    endpoint_.probing_ = true;
    endpoint_.probed_since_ = endpoint_.loop_.now();
    endpoint_.probed_.reset();
  }
  ~Probe() {
    endpoint_.probing_ = false;
    endpoint_.probed_.set();
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  PolicyEndpoint& endpoint_;
};

PolicyEndpoint::PolicyEndpoint(async::Loop& loop, Names& names, std::shared_ptr<const PolicyService> service,
                               std::size_t connections)
    : loop_(loop),
      names_(names),
      service_(std::move(service)),
      places_(loop, connections),
      most_(connections),
      freed_(loop),
      probed_(loop) {}

PolicyEndpoint::~PolicyEndpoint() = default;

void PolicyEndpoint::is_up() {
  if (health_ == Health::up) return;
  health_ = Health::up;
  probed_.set();
}

void PolicyEndpoint::went_down(Health how, SteadyTime since, std::string why) {
  if (last_answer_ > since || (how == Health::unreachable && last_connected_ > since)) return;
  health_ = how;
  last_error_ = std::move(why);
  next_try_ = loop_.now() + service_->retry_delay;
  fell_.raise();
  fell_.reset();
}

Task<Result<void>> PolicyEndpoint::wait_while_down(std::unique_ptr<Probe>& probe) {
  if (health_ == Health::up) co_return Result<void>();
  if (loop_.now() < next_try_) co_return fail(PolicyServerError::down, last_error_);
  if (!probing_) {
    probe = std::make_unique<Probe>(*this);
    co_return Result<void>();
  }
  const auto patience = health_ == Health::silent ? service_->retry_delay : service_->timeout;
  (void)co_await probed_.wait({.deadline = probed_since_ + patience});
  if (health_ == Health::up) co_return Result<void>();
  co_return fail(PolicyServerError::down, last_error_);
}

bool PolicyEndpoint::usable(const Connection& connection) const {
  const SteadyTime now = loop_.now();
  if (now >= connection.made + service_->max_ttl || now >= connection.used + service_->max_idle) return false;
  if (!connection.stream.is_open() || connection.stream.broken() || !connection.stream.buffered().empty()) return false;
  char byte;  // the end of input, or an answer to nothing
  return ::recv(connection.stream.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

PolicyEndpoint::Connected PolicyEndpoint::take_idle(std::uint64_t transaction) {
  std::erase_if(idle_, [this](const Connected& c) { return !usable(*c); });
  auto found = idle_.end();
  if (transaction != 0)
    found = std::ranges::find(idle_, transaction, [](const Connected& c) { return c->transaction; });
  if (found == idle_.end()) {  // the last one used of those that nobody has, so that the others can end
    const auto free =
        std::find_if(idle_.rbegin(), idle_.rend(), [](const Connected& c) { return c->transaction == 0; });
    if (free != idle_.rend()) found = std::prev(free.base());
  }
  if (found == idle_.end() && counts_.open >= most_) found = idle_.begin();
  if (found == idle_.end()) return nullptr;
  Connected taken = std::move(*found);
  idle_.erase(found);
  return taken;
}

Task<Result<PolicyEndpoint::Connected>> PolicyEndpoint::connection_for(std::uint64_t transaction, SteadyTime deadline) {
  for (;;) {
    if (Connected idle = take_idle(transaction)) co_return idle;
    const SteadyTime began = loop_.now();
    ++counts_.connects;
    auto stream = co_await connect_to(loop_, names_, service_->address, service_->families,
                                      {.deadline = began + service_->timeout});
    if (stream) {
      // To be connected says little of a server that took connections before and answered nobody.
      last_connected_ = loop_.now();
      if (health_ != Health::silent) is_up();
      co_return std::make_unique<Connection>(*this, *std::move(stream));
    }
    if (counts_.open == 0 || loop_.now() >= deadline) {
      went_down(Health::unreachable, began, stream.error());
      co_return fail(PolicyServerError::unreachable, stream.error());
    }
    // It takes no more than these.
    if (idle_.empty()) {
      freed_.reset();
      (void)co_await freed_.wait({.deadline = deadline});
    } else {
      Connected any = std::move(idle_.front());
      idle_.pop_front();
      if (usable(*any)) co_return any;
    }
  }
}

Task<Result<std::string>> PolicyEndpoint::talk(Connection& connection, const Request& request, bool utf8) {
  async::Stream& stream = connection.stream;
  stream.write(request());
  if (auto sent = co_await stream.flush({.deadline = loop_.now() + service_->timeout}); !sent)
    co_return std::unexpected(std::move(sent).error());
  const async::Until until{.deadline = loop_.now() + service_->timeout};
  PolicyReply reply;
  while (!reply.complete()) {
    const auto line = co_await stream.read_line(PolicyReply::kMaxSize, until);
    if (!line) {
      if (line.error().is(WaitError::line_too_long)) co_return fail(PolicyReplyError::too_large);
      co_return std::unexpected(line.error());
    }
    if (auto taken = reply.line(*line, utf8); !taken) co_return std::unexpected(std::move(taken).error());
  }
  co_return reply.action();
}

Task<Result<std::string>> PolicyEndpoint::attempt(std::uint64_t transaction, Request request, bool utf8) {
  ++counts_.requests;
  ++counts_.failed;  // until it is known better
  const SteadyTime deadline = loop_.now() + service_->timeout;
  std::unique_ptr<Probe> probe;
  if (auto up = co_await wait_while_down(probe); !up) co_return std::unexpected(std::move(up).error());
  Place place(*this);
  if (auto taken = co_await places_.acquire({.deadline = deadline, .cancel = &fell_}); !taken) {
    if (taken.error().is(WaitError::cancelled)) co_return fail(PolicyServerError::down, last_error_);
    co_return fail(PolicyServerError::busy);
  }
  place.took();
  auto connection = co_await connection_for(transaction, deadline);
  if (!connection) co_return std::unexpected(std::move(connection).error());
  const SteadyTime asked = loop_.now();
  auto action = co_await talk(**connection, request, utf8);
  if (!action) {
    if (action.error().is(WaitError::timed_out)) went_down(Health::silent, asked, action.error().message());
    co_return action;
  }
  last_answer_ = loop_.now();
  is_up();
  --counts_.failed;
  counts_.slowest = std::max<std::chrono::nanoseconds>(counts_.slowest, loop_.now() - asked);
  (*connection)->transaction = transaction;
  keep(*std::move(connection));
  co_return action;
}

void PolicyEndpoint::keep(Connected connection) {
  connection->used = loop_.now();
  ++connection->requests;
  if (service_->request_limit > 0 && connection->requests >= service_->request_limit) return;
  connection->stream.shrink_input();
  idle_.push_back(std::move(connection));
  freed_.set();
  if (!sweep_)
    sweep_ = loop_.call_at(loop_.now() + std::min(service_->max_idle, service_->max_ttl), [this] { close_old(); });
}

void PolicyEndpoint::close_old() {
  std::erase_if(idle_, [this](const Connected& c) { return !usable(*c); });
  SteadyTime next = kNever;
  for (const Connected& c : idle_) next = std::min({next, c->used + service_->max_idle, c->made + service_->max_ttl});
  sweep_ = nullptr;
  if (next != kNever) sweep_ = loop_.call_at(next, [this] { close_old(); });
}

void PolicyEndpoint::forget(std::uint64_t transaction) {
  for (const Connected& c : idle_)
    if (c->transaction == transaction) c->transaction = 0;
}

}  // namespace pen::smtpd
