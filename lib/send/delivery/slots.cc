#include "lib/send/delivery/slots.h"

#include <algorithm>
#include <deque>
#include <map>

#include "lib/base/check.h"
#include "lib/queue/spool/spool.h"

namespace pen::delivery {
namespace {

using ipc::delivery::Stage;

constexpr std::string_view kCalledOff =
    "the conversation with the queue manager has ended: a delivery is called off, and made again";

struct JobInHand {
  ipc::delivery::Job job;  // without inline body
  Result<ipc::Content> content;
};

struct Slot {
  std::deque<std::unique_ptr<JobInHand>> jobs;
  bool running = false;
  bool closing = false;
};

mail::DeliveryStatus broken(std::string text) {
  return mail::make_status(mail::Action::deferred, "4.3.0", std::move(text));
}

Error other_use() { return Error::from_errno(ESTALE, "the spool file is another message's by now"); }

/// qmgr has looked at the file's use before it sent the job, and keeps the file as it is while it knows of a reader.
/// When it dies, the next one may use the file again under a reader that hangs: its header is written before that.
Result<void> tie_to_use(ipc::Content& content, const std::string& queue_id) {
  PEN_TRY_ASSIGN(const auto header, spool::Spool::read_header(content.descriptor()));
  if (!header || (!header->queue_id.empty() && header->queue_id != queue_id)) return fail(other_use());
  content.check_reads([use = header->use](int fd) -> Result<void> {
    PEN_TRY_ASSIGN(const auto now, spool::Spool::read_header(fd));
    if (!now || now->use != use) return fail(other_use());
    return {};
  });
  return {};
}

Result<ipc::Content> content_of(ipc::delivery::Job& job, std::span<Fd> fds) {
  auto content = take_content(job, fds);
  if (content && !content->in_memory()) PEN_TRY(tie_to_use(*content, job.queue_id));
  return content;
}

/// What the message is, from the job. The error: the job cannot be.
Result<std::shared_ptr<Incoming>> message_of(JobInHand& in) {
  auto message = std::make_shared<Incoming>();
  PEN_TRY_ASSIGN(message->body, std::move(in.content));
  message->envelope.queue_id = in.job.queue_id;
  message->envelope.facts() = in.job.facts();
  message->nexthop = in.job.nexthop;
  message->soft_refusals = in.job.soft_refusals;
  return message;
}

void read_header(Incoming& message) {
  message.header.resize(
      std::min<std::uint64_t>({Incoming::kMaxHeader, message.envelope.body.header_size, message.body.size()}));
  // The delivery itself will find the file unreadable and say so.
  if (!message.body.read(0, message.header)) message.header.clear();
}

/// As the tables have it.
async::Task<mail::DeliveryStatus> filtered(const SlotEnvironment& environment, std::string queue_id,
                                           mail::DeliveryStatus status) {
  auto done = co_await environment.tables->ask([&] {
    mail::DeliveryStatus attempt = status;
    std::string warning = environment.filter->apply(attempt);
    return std::pair(std::move(attempt), std::move(warning));
  });
  if (!done.second.empty()) environment.events.warning(queue_id, done.second);
  co_return std::move(done.first);
}

/// Of one conversation.
class Slots : public std::enable_shared_from_this<Slots> {
 public:
  Slots(std::shared_ptr<SlotEnvironment> environment, Channel channel, std::shared_ptr<Ending> ending)
      : environment_(std::move(environment)),
        qmgr_(std::move(channel)),
        ending_(std::move(ending)),
        quiet_(environment_->loop) {}

  // --- what converse() calls ---
  Result<void> open(const ipc::delivery::OpenConnection& o);
  Result<void> close(const ipc::delivery::CloseConnection& c);
  Result<void> take(ipc::delivery::Job job, std::span<Fd> fds);
  /// Jobs not begun have no effect yet: qmgr hands them out again when the conversation ends.
  void drain() {
    draining_ = true;
    forget_waiting();
  }
  bool idle() const { return running_ == 0; }

  static async::Task<Result<void>> serve(std::shared_ptr<Slots> self);

 private:
  void end_slot(std::uint64_t id);
  void forget_waiting() {
    for (auto& [id, slot] : slots_) slot.jobs.clear();
  }
  /// The next job of a slot. nullptr: there is none, and the slot has come to rest.
  std::unique_ptr<JobInHand> next_job(std::uint64_t id);
  static async::Task<void> run_slot(std::shared_ptr<Slots> self, std::uint64_t id);
  async::Task<void> run_job(std::unique_ptr<JobInHand> in);

  std::shared_ptr<SlotEnvironment> environment_;
  Conversation qmgr_;
  const std::shared_ptr<Ending> ending_;
  std::map<std::uint64_t, Slot> slots_;
  std::size_t running_ = 0;  // slots at work
  async::Event quiet_;       // set when there is none
  bool draining_ = false;
};

Result<void> Slots::open(const ipc::delivery::OpenConnection& o) {
  if (draining_) return {};
  if (slots_.contains(o.connection)) return out_of_place("connection number used twice");
  if (slots_.size() >= environment_->limit) {
    ipc::delivery::ConnectionClosed refused;
    refused.connection = o.connection;
    refused.trouble = ipc::delivery::Trouble::local;
    refused.status = broken("all delivery slots are taken");
    qmgr_.send(refused);
    return {};
  }
  slots_.emplace(o.connection, Slot{});
  ipc::delivery::ConnectionOpened opened;
  opened.connection = o.connection;
  opened.features.eight_bit_mime = opened.features.smtputf8 = opened.features.dsn = true;
  opened.features.window = 1;
  qmgr_.send(opened);
  return {};
}

void Slots::end_slot(std::uint64_t id) {
  slots_.erase(id);
  ipc::delivery::ConnectionClosed closed;
  closed.connection = id;
  closed.opened = true;
  qmgr_.send(closed);
}

Result<void> Slots::close(const ipc::delivery::CloseConnection& c) {
  if (draining_) return {};
  const auto it = slots_.find(c.connection);
  if (it == slots_.end()) return {};  // it ended meanwhile
  it->second.closing = true;
  if (!it->second.running) end_slot(c.connection);
  return {};
}

Result<void> Slots::take(ipc::delivery::Job job, std::span<Fd> fds) {
  if (draining_) return {};
  const std::uint64_t id = job.connection;
  const auto it = slots_.find(id);
  if (it == slots_.end() || it->second.closing) return out_of_place("job for a connection that is not open");
  if (it->second.jobs.size() >= kMaxJobsPerSlot) return out_of_place("too many jobs for one connection");
  if (fds.size() > 1) return out_of_place("job with several files");
  auto content = content_of(job, fds);
  it->second.jobs.push_back(std::make_unique<JobInHand>(std::move(job), std::move(content)));
  if (!it->second.running) {
    it->second.running = true;
    ++running_;
    quiet_.reset();
    environment_->loop.spawn("delivery", run_slot(shared_from_this(), id));
  }
  return {};
}

std::unique_ptr<JobInHand> Slots::next_job(std::uint64_t id) {
  const auto it = slots_.find(id);
  if (it != slots_.end() && !it->second.jobs.empty()) {
    auto job = std::move(it->second.jobs.front());
    it->second.jobs.pop_front();
    return job;
  }
  if (it != slots_.end()) {
    it->second.running = false;
    if (it->second.closing) end_slot(id);
  }
  if (--running_ == 0) {
    quiet_.set();
    qmgr_.idle();
  }
  return nullptr;
}

async::Task<void> Slots::run_slot(std::shared_ptr<Slots> self, std::uint64_t id) {
  while (auto job = self->next_job(id)) co_await self->run_job(std::move(job));
}

async::Task<void> Slots::run_job(std::unique_ptr<JobInHand> in) {
  SlotEnvironment& environment = *environment_;
  const Clock& clock = environment.loop.clock();
  const ipc::delivery::Job& job = in->job;
  ++environment.busy;
  ipc::delivery::JobResult result;
  result.job = job.job;
  result.connection = job.connection;
  const SteadyTime began = environment.loop.now();
  qmgr_.stages().set(job.slot, Stage::started);
  auto message = message_of(*in);
  if (message) (*message)->ending = ending_;
  if (message && !(*message)->body.in_memory()) {
    auto work = [m = *message] { read_header(*m); };
    co_await environment.pool.run_erased(std::move(work));
  } else if (message) {
    read_header(**message);
  }
  qmgr_.stages().set(job.slot, Stage::committed);
  std::vector<mail::DeliveryStatus> together;
  const WallTime all_begun = clock.wall_now();
  if (message && environment.deliver_together) {
    std::vector<mail::Recipient> recipients;
    for (const auto& to : job.recipients) recipients.push_back(to.recipient);
    together = co_await environment.deliver_together(*message, std::move(recipients));
    PEN_CHECK(together.size() == job.recipients.size());
  }
  for (const auto& to : job.recipients) {
    if (ending_->has_come()) break;
    const WallTime begun = together.empty() ? clock.wall_now() : all_begun;
    mail::DeliveryStatus status;
    if (!together.empty())
      status = std::move(together[result.results.size()]);
    else if (message)
      status = co_await environment.deliver(*message, to.recipient);
    else
      status = broken(message.error().message());
    if (environment.filter) status = co_await filtered(environment, job.queue_id, std::move(status));
    if (ending_->has_come()) break;
    const auto delays = mail::delays_between(job.arrival, job.active, begun, clock.wall_now());
    environment.events.answered(job, to.recipient, delays, status);
    ++environment.done;
    result.results.push_back({{to.ordinal}, std::move(status)});
  }
  result.service_time = std::chrono::duration_cast<microseconds>(environment.loop.now() - began);
  --environment.busy;
  if (result.results.size() < job.recipients.size()) environment.events.warning(job.queue_id, std::string(kCalledOff));
  qmgr_.send(result);
}

async::Task<Result<void>> Slots::serve(std::shared_ptr<Slots> self) {
  auto ended = co_await converse(self->qmgr_, *self, self->environment_->draining);
  self->qmgr_.close();
  self->ending_->come();
  self->forget_waiting();  // jobs not begun are qmgr's again; those in hand end now
  // A program that drains ends with its conversations: not before its deliveries.
  while (self->draining_ && !self->idle()) (void)co_await self->quiet_.wait();
  co_return ended;
}

}  // namespace

async::Task<Result<void>> serve_slots(std::shared_ptr<SlotEnvironment> environment, Channel channel) {
  PEN_CO_TRY_ASSIGN(auto ending, Ending::make());
  co_return co_await Slots::serve(
      std::make_shared<Slots>(std::move(environment), std::move(channel), std::move(ending)));
}

}  // namespace pen::delivery
