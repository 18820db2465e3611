#include "lib/receive/intake/enqueue_client.h"

#include "lib/suite/ipc/badges.h"

namespace pen::intake {

using namespace ipc::enqueue;

namespace {

// A queue manager that says "try later" is asked again.
constexpr Pace::Options kTryLater{.first = milliseconds(50), .longest = milliseconds(1000)};

Enqueued translate(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return Enqueued::ok;
    case Outcome::no_space:
      return Enqueued::no_space;
    case Outcome::refused:
      return Enqueued::refused;
    case Outcome::try_later:
      break;
  }
  return Enqueued::unavailable;
}

}  // namespace

class EnqueueClient::LeaseImpl final : public Lease {
 public:
  LeaseImpl(std::shared_ptr<EnqueueClient*> client, std::uint64_t connection, std::uint64_t id, Fd fd,
            std::uint64_t offset)
      : client_(std::move(client)), connection_(connection), id_(id), fd_(std::move(fd)), offset_(offset) {}
  ~LeaseImpl() override {
    if (valid() && !used_) (void)(*client_)->link_.channel().send(ReturnLease{id_});  // too large it cannot be
  }
  int fd() const override { return fd_.get(); }
  std::uint64_t content_offset() const override { return offset_; }
  bool valid() const override {
    return *client_ && (*client_)->connected() && (*client_)->link_.connections() == connection_;
  }
  std::uint64_t id() const { return id_; }
  /// While qmgr may be taking the file it is not given back.
  void set_used(bool used) { used_ = used; }

 private:
  std::shared_ptr<EnqueueClient*> client_;
  std::uint64_t connection_, id_;
  Fd fd_;
  std::uint64_t offset_;
  bool used_ = false;
};

EnqueueClient::Pending::Pending(EnqueueClient& client_in, std::uint64_t request_in)
    : client(client_in), request(request_in), settled(client_in.loop_) {
  client.pending_.emplace(request, this);
}
EnqueueClient::Pending::~Pending() { client.pending_.erase(request); }

EnqueueClient::EnqueueClient(async::Loop& loop, std::string path, std::uint64_t inline_limit)
    : loop_(loop),
      connected_(loop),
      inline_limit_(inline_limit),
      carrier_(ipc::badges().program.empty() ? ipc::kAnyField : ipc::carrier_of(ipc::badges().program)),
      alive_(std::make_shared<EnqueueClient*>(this)),
      link_(loop, {.path = std::move(path), .conversation = kName}, *this) {}

EnqueueClient::~EnqueueClient() { *alive_ = nullptr; }

void EnqueueClient::on_lost(const Error&) {
  connected_.reset();
  accepting_ = true;  // unknown: the next qmgr says
  for (const auto& [request, pending] : pending_) {
    if (pending->answered) continue;  // answer and end came together: the answer counts
    pending->lost = true;
    pending->settled.set();
  }
}

void EnqueueClient::on_message(Link::Channel::Received& received) {
  if (const auto* state = std::get_if<QueueState>(&received.message)) {
    accepting_ = state->accepting;
    inline_limit_ = state->inline_limit;
    return;
  }
  if (auto* leased = std::get_if<SpoolLeased>(&received.message)) {
    std::unique_ptr<LeaseImpl> lease;
    if (leased->outcome == Outcome::ok && !received.fds.empty())
      lease = std::make_unique<LeaseImpl>(alive_, link_.connections(), leased->lease, std::move(received.fds.front()),
                                          leased->content_offset);
    const auto found = pending_.find(leased->request);
    if (found == pending_.end()) return;  // nobody waits any more: the lease goes back by itself
    found->second->outcome = lease || leased->outcome != Outcome::ok ? leased->outcome : Outcome::refused;
    found->second->lease = std::move(lease);
    found->second->answered = true;
    found->second->settled.set();
    return;
  }
  auto& answer = std::get<ipc::enqueue::Enqueued>(received.message);
  const auto found = pending_.find(answer.request);
  if (found == pending_.end()) return;
  found->second->outcome = answer.outcome;
  found->second->text = std::move(answer.text);
  found->second->answered = true;
  found->second->settled.set();
}

async::Task<LeaseAnswer> EnqueueClient::lease(std::uint64_t expected_size, async::Until until) {
  LeaseAnswer answer;
  Pace pace(kTryLater);
  for (;;) {
    if (!co_await connected_.wait(until)) co_return answer;
    Pending pending(*this, ++next_request_);
    if (!link_.channel().send(LeaseSpool{pending.request, expected_size})) co_return answer;
    if (!co_await pending.settled.wait(until)) co_return answer;
    if (pending.lost) continue;  // the next qmgr has files too
    answer.outcome = translate(pending.outcome);
    answer.lease = std::move(pending.lease);
    if (pending.outcome != Outcome::try_later) co_return answer;
    if (!co_await loop_.sleep(pace.next(), until)) co_return answer;
  }
}

async::Task<EnqueueAnswer> EnqueueClient::enqueue(mail::Envelope& envelope, Lease* given, std::string_view body,
                                                  std::uint64_t permit, async::Until until, std::string_view session) {
  auto* lease = static_cast<LeaseImpl*>(given);  // leases come from lease() only
  EnqueueAnswer answer;
  Pace pace(kTryLater);
  // qmgr would refuse it: here the log can say where it went wrong.
  if (const auto field = ipc::forbidden_field(envelope, carrier_); !field.empty()) {
    answer.outcome = Enqueued::refused;
    answer.text = ipc::refused_field(carrier_, field);
    co_return answer;
  }
  for (;;) {
    if (lease && !lease->valid()) {
      answer.text = "the queue manager died with the message's spool file";
      co_return answer;
    }
    if (auto r = co_await connected_.wait(until); !r) {
      answer.text = "no connection to the queue manager" + (last_error().empty() ? "" : ": " + last_error());
      co_return answer;
    }
    if (lease && !lease->valid()) continue;
    if (envelope.release != WallTime() && link_.channel().peer_revision() < ipc::enqueue::kReleaseRevision) {
      answer.text = "the queue manager is of a version that would send mail for later at once";
      if (auto r = co_await loop_.sleep(pace.next(), until); !r) co_return answer;
      continue;
    }
    Pending pending(*this, ++next_request_);
    Enqueue message;
    message.request = pending.request;
    message.envelope = std::move(envelope);
    message.lease = lease ? lease->id() : 0;
    if (!lease) message.inline_body = body;
    message.permit = permit;
    message.session = session;
    const auto sent = link_.channel().send(message);
    envelope = std::move(message.envelope);
    if (!sent) {
      answer.outcome = Enqueued::refused;
      answer.text = sent.error().message();
      co_return answer;
    }
    if (lease) lease->set_used(true);
    if (auto r = co_await pending.settled.wait(until); !r) {
      answer.text = "the queue manager did not answer: " + r.error().message();
      co_return answer;
    }
    if (pending.lost) continue;  // the next qmgr takes it, or finds that it has it already
    answer.outcome = translate(pending.outcome);
    if (lease && answer.outcome != Enqueued::ok) lease->set_used(false);
    answer.text = std::move(pending.text);
    if (pending.outcome != Outcome::try_later) co_return answer;
    if (auto r = co_await loop_.sleep(pace.next(), until); !r) co_return answer;
  }
}

}  // namespace pen::intake
