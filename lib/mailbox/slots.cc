#include "lib/mailbox/slots.h"

#include <fmt/format.h>
#include <deque>
#include <map>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/ipc/stage_page.h"
#include "lib/mail/delivery_line.h"
#include "lib/mailbox/content.h"
#include "lib/spool/spool.h"

namespace pen::mailbox {
namespace {

namespace delivery = ipc::delivery;

constexpr std::size_t kMaxJobsPerSlot = 64;

struct JobInHand {
  delivery::Job job;  // without inline body
  Result<ipc::Content> content;
};

struct Slot {
  std::deque<std::unique_ptr<JobInHand>> jobs;
  bool running = false;
  bool closing = false;
};

/// One connection of qmgr.
struct Talk {
  Talk(std::shared_ptr<SlotEnvironment> e, SlotChannel c, std::shared_ptr<Ending> end)
      : environment(std::move(e)), channel(std::move(c)), quiet(environment->loop), ending(std::move(end)) {}
  std::shared_ptr<SlotEnvironment> environment;
  SlotChannel channel;
  ipc::StagePage page;
  std::map<std::uint64_t, Slot> slots;
  std::size_t running = 0;  // slots at work
  async::Event quiet;       // set when there is none
  async::Cancel all_done;   // raised then
  const std::shared_ptr<Ending> ending;

  template <class M>
  void send(const M& message) {
    if (!channel.is_open()) return;  // qmgr has gone: it knows what that means for its jobs
    if (auto sent = channel.send(message); !sent) {
      log::error("answer to the queue manager: {}", sent.error().message());
      channel.close();
    }
  }
  void end_slot(std::uint64_t id) {
    slots.erase(id);
    delivery::ConnectionClosed closed;
    closed.connection = id;
    closed.opened = true;
    send(closed);
  }
};

mail::DeliveryStatus broken(std::string text) {
  mail::DeliveryStatus s;
  s.action = mail::Action::deferred;
  s.dsn = "4.3.0";
  s.text = std::move(text);
  return s;
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

/// What the message is, from the job. The error: the job cannot be.
Result<std::shared_ptr<Incoming>> take(JobInHand& in) {
  auto message = std::make_shared<Incoming>();
  delivery::Job& job = in.job;
  mail::Envelope& e = message->envelope;
  e.queue_id = job.queue_id;
  e.facts() = job.facts();
  message->nexthop = job.nexthop;
  message->soft_refusals = job.soft_refusals;
  PEN_TRY_ASSIGN(message->body, std::move(in.content));
  return message;
}

void read_header(Incoming& message) {
  message.header.resize(std::min<std::uint64_t>({kMaxHeader, message.envelope.body.header_size, message.body.size()}));
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
  if (!done.second.empty()) log::warning("{}: {}", queue_id, done.second);
  co_return std::move(done.first);
}

async::Task<void> run_job(std::shared_ptr<Talk> talk, std::unique_ptr<JobInHand> in) {
  SlotEnvironment& environment = *talk->environment;
  ++environment.busy;
  delivery::JobResult result;
  result.job = in->job.job;
  result.connection = in->job.connection;
  const SteadyTime began = environment.loop.now();
  talk->page.set(in->job.slot, delivery::Stage::started);
  auto message = take(*in);
  if (message) (*message)->ending = talk->ending;
  if (message && !(*message)->body.in_memory()) {
    auto work = [m = *message] { read_header(*m); };
    co_await environment.pool.run_erased(std::move(work));
  } else if (message) {
    read_header(**message);
  }
  talk->page.set(in->job.slot, delivery::Stage::committed);
  std::vector<mail::DeliveryStatus> together;
  const WallTime all_begun = environment.loop.clock().wall_now();
  if (message && environment.deliver_together) {
    std::vector<mail::Recipient> recipients;
    for (const auto& r : in->job.recipients) recipients.push_back(r.recipient);
    together = co_await environment.deliver_together(*message, std::move(recipients));
    PEN_CHECK(together.size() == in->job.recipients.size());
  }
  for (const auto& r : in->job.recipients) {
    if (talk->ending->has_come()) break;
    const WallTime begun = together.empty() ? environment.loop.clock().wall_now() : all_begun;
    mail::DeliveryStatus status;
    if (!together.empty())
      status = std::move(together[result.results.size()]);
    else if (message)
      status = co_await environment.deliver(*message, r.recipient);
    else
      status = broken(message.error().message());
    if (environment.filter) status = co_await filtered(environment, in->job.queue_id, std::move(status));
    if (talk->ending->has_come()) break;
    const auto delays =
        mail::delays_between(in->job.arrival, in->job.active, begun, environment.loop.clock().wall_now());
    log::info("{}", mail::delivery_line(in->job.queue_id, r.recipient, environment.relay, 1, delays, status,
                                        mail::wording_of(in->job.purpose, in->job.soft_refusals)));
    ++environment.done;
    result.results.push_back({{r.ordinal}, std::move(status)});
  }
  result.service_time = std::chrono::duration_cast<microseconds>(environment.loop.now() - began);
  --environment.busy;
  if (result.results.size() < in->job.recipients.size())
    log::warning(
        "{}: the conversation with the queue manager has ended: a delivery is called off, and made "
        "again",
        in->job.queue_id);
  talk->send(result);
}

async::Task<void> run_slot(std::shared_ptr<Talk> talk, std::uint64_t id) {
  for (;;) {
    auto it = talk->slots.find(id);
    if (it == talk->slots.end() || it->second.jobs.empty()) {
      if (it != talk->slots.end()) {
        it->second.running = false;
        if (it->second.closing) talk->end_slot(id);
      }
      if (--talk->running == 0) {
        talk->quiet.set();
        talk->all_done.raise();
      }
      co_return;
    }
    auto job = std::move(it->second.jobs.front());
    it->second.jobs.pop_front();
    co_await run_job(talk, std::move(job));
  }
}

/// False: the peer breaks the conversation.
bool handle(const std::shared_ptr<Talk>& talk, delivery::ToProgram& message, std::vector<Fd>& fds) {
  if (const auto* page = std::get_if<delivery::StagePage>(&message))
    return fds.size() == 1 && !talk->page.mapped() && talk->page.map(fds[0].get(), page->slots).has_value();
  if (const auto* open = std::get_if<delivery::OpenConnection>(&message)) {
    if (talk->slots.contains(open->connection)) return false;
    if (talk->slots.size() >= talk->environment->limit) {
      delivery::ConnectionClosed refused;
      refused.connection = open->connection;
      refused.trouble = delivery::Trouble::local;
      refused.status = broken("all delivery slots are taken");
      talk->send(refused);
      return true;
    }
    talk->slots.emplace(open->connection, Slot{});
    delivery::ConnectionOpened opened;
    opened.connection = open->connection;
    opened.features.eight_bit_mime = opened.features.smtputf8 = opened.features.dsn = true;
    opened.features.window = 1;
    talk->send(opened);
    return true;
  }
  if (const auto* close = std::get_if<delivery::CloseConnection>(&message)) {
    const auto it = talk->slots.find(close->connection);
    if (it == talk->slots.end()) return true;  // it ended meanwhile
    it->second.closing = true;
    if (!it->second.running) talk->end_slot(close->connection);
    return true;
  }
  auto& job = std::get<delivery::Job>(message);
  const auto it = talk->slots.find(job.connection);
  if (it == talk->slots.end() || it->second.closing || it->second.jobs.size() >= kMaxJobsPerSlot || fds.size() > 1)
    return false;
  auto content = ipc::take_content(job.inline_body, fds, job.body_offset, job.body.size);
  job.inline_body = {};
  if (content && !content->in_memory()) {
    if (auto tied = tie_to_use(*content, job.queue_id); !tied) content = std::unexpected(std::move(tied).error());
  }
  auto in = std::make_unique<JobInHand>(std::move(job), std::move(content));
  const std::uint64_t id = in->job.connection;
  it->second.jobs.push_back(std::move(in));
  if (!it->second.running) {
    it->second.running = true;
    ++talk->running;
    talk->quiet.reset();
    talk->all_done.reset();
    talk->environment->loop.spawn("delivery", run_slot(talk, id));
  }
  return true;
}

/// Until nothing is in hand, or the connection has ended; what still comes is handed out again by qmgr.
async::Task<void> finish(std::shared_ptr<Talk> talk) {
  for (auto& [id, slot] : talk->slots) slot.jobs.clear();
  while (talk->running > 0) {
    auto received = co_await talk->channel.receive({.cancel = &talk->all_done});
    if (!received && !received.error().is(async::WaitError::cancelled)) {
      talk->ending->come();
      (void)co_await talk->quiet.wait();
    }
  }
  (void)co_await talk->channel.flush();  // an error here is the end that comes next
}

}  // namespace

async::Task<Result<void>> serve_slots(std::shared_ptr<SlotEnvironment> environment, SlotChannel channel) {
  PEN_CO_TRY_ASSIGN(auto ending, Ending::make());
  auto talk = std::make_shared<Talk>(std::move(environment), std::move(channel), std::move(ending));
  Result<void> ended;
  for (;;) {
    async::Until until;
    until.cancel = talk->environment->draining;
    auto received = co_await talk->channel.receive(until);
    if (!received && received.error().is(async::WaitError::cancelled)) {
      // Jobs not begun have no effect yet: qmgr hands them out again when the connection ends.
      co_await finish(talk);
      break;
    }
    if (!received) {
      ended = fail(std::move(received).error());
      break;
    }
    if (!handle(talk, received->message, received->fds)) {
      ended = fail(ipc::IpcError::out_of_place);
      break;
    }
    if (talk->channel.congested()) {
      if (auto r = co_await talk->channel.flush(); !r) break;
    }
  }
  talk->channel.close();
  talk->ending->come();
  // Jobs not begun are qmgr's again; those in hand end now.
  for (auto& [id, slot] : talk->slots) slot.jobs.clear();
  co_return ended;
}

Result<std::shared_ptr<const map::StatusFilter>> open_status_filter(const std::vector<std::string>& tables,
                                                                    const std::string& default_type) {
  map::OpenOptions options;
  options.default_type = default_type;
  PEN_TRY_ASSIGN(auto filter, map::StatusFilter::open(tables, options));
  for (const auto& problem : filter.problems()) log::warning("{}", map::advice(problem));
  if (filter.empty()) return nullptr;
  return std::make_shared<const map::StatusFilter>(std::move(filter));
}

std::vector<std::string> status_lines(const SlotEnvironment& environment) {
  return {fmt::format("deliveries in hand {}, recipients done {}", environment.busy, environment.done)};
}

}  // namespace pen::mailbox
