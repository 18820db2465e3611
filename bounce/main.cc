/// bounce: notices of failure, delay and success. See man/bounce.8.
#include <fmt/format.h>

#include <memory>

#include "bounce/reporter.h"
#include "bounce/session_notice.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/bounce/from_config.h"
#include "lib/intake/enqueue_client.h"
#include "lib/intake/from_settings.h"
#include "lib/mail/queue_id.h"
#include "lib/resolve/from_settings.h"
#include "lib/service/conversations.h"

namespace {

using namespace pen;
namespace conversation = ipc::bounce;
using Channel = ipc::Channel<conversation::ToBounce, conversation::FromBounce>;
using ErrorsChannel = ipc::Channel<ipc::session_errors::ToBounce, ipc::session_errors::FromBounce>;

// notices being made at once; beyond it qmgr's requests wait in the socket
constexpr std::size_t kMaxInHand = 100;
constexpr std::size_t kThreads = 4;

struct Server {
  Server(service::Context& context, std::shared_ptr<const resolve::Resolve> resolver, mail::DsnSettings notices,
         bounce::PostmasterCopies copies, intake::Settings settings)
      : loop(context.loop()),
        random(secure_random_u64()),
        pool(loop, kThreads),
        queue(loop, context.queue_path(ipc::kQmgrSocket)),
        ids(loop.clock(), Random(secure_random_u64())),
        intake{.loop = loop,
               .pool = pool,
               .queue = queue,
               .resolve = std::move(resolver),
               .settings = std::move(settings),
               .next_queue_id = [this] { return ids.next(); },
               .log_info = [](const std::string& line) { log::info("{}", line); },
               .log_warning = log::as_warning},
        reporter(intake, std::move(notices), double_bounce(context.settings()), std::move(copies),
                 intake::own_mail(context.settings(), "bounce"), random),
        session_notices(intake,
                        {.mail_name = context.settings().mail_name,
                         .hostname = context.settings().myhostname,
                         .origin = context.settings().myorigin,
                         .errors_to = context.settings().error_notice_recipient,
                         .bounces_to = context.settings().bounce_notice_recipient,
                         .obsolete_from = context.settings().header_from_format == config::FromFormat::obsolete,
                         .sender = double_bounce(context.settings()),
                         .own = intake::own_mail(context.settings(), "notify")},
                        random),
        room(loop, kMaxInHand),
        draining(context.draining()),
        sessions(context.sessions()) {}

  static std::string double_bounce(const config::Settings& s) { return s.double_bounce_sender + "@" + s.myhostname; }

  async::Loop& loop;
  Random random;
  async::HandlerPool pool;
  intake::EnqueueClient queue;
  mail::QueueIdGenerator ids;
  intake::Intake intake;
  bounce::Reporter reporter;
  bounce::SessionNotices session_notices;
  async::Semaphore room;
  async::Cancel& draining;
  async::Gate& sessions;
  std::uint64_t made = 0, not_due = 0, failed = 0;
};

async::Task<void> answer_one(std::shared_ptr<Server> server, std::shared_ptr<Channel> channel,
                             std::shared_ptr<bounce::Request> request) {
  auto answer = co_await server->reporter.report(std::move(request));
  server->room.release();
  ++(!answer.done ? server->failed : answer.queue_id.empty() ? server->not_due : server->made);
  if (!channel->is_open()) co_return;  // qmgr has gone and will ask again
  if (auto sent = channel->send(answer); !sent) log::error("answer to the queue manager: {}", sent.error().message());
  (void)co_await channel->flush();  // a failure ends the conversation at the reader
}

/// One notice after another: while one is being queued the next waits in the socket.
async::Task<Result<void>> session_errors(std::shared_ptr<Server> server, ErrorsChannel channel) {
  for (;;) {
    PEN_CO_TRY_ASSIGN(auto received, co_await channel.receive({.cancel = &server->draining}));
    co_await server->session_notices.send(std::get<ipc::session_errors::Session>(std::move(received.message)));
  }
}

/// Notices in hand keep the channel for their answers when the conversation has ended.
async::Task<Result<void>> notices(std::shared_ptr<Server> server, std::shared_ptr<Channel> channel) {
  for (;;) {
    const async::Until until{.cancel = &server->draining};
    PEN_CO_TRY(co_await server->room.acquire(until));
    auto received = co_await channel->receive(until);
    if (!received) {
      server->room.release();
      co_return fail(std::move(received).error());
    }
    auto request = std::make_shared<bounce::Request>();
    auto& notify = std::get<conversation::Notify>(received->message);
    auto content = ipc::take_content(notify.inline_body, received->fds, notify.body_offset, notify.envelope.body.size);
    notify.inline_body = {};
    request->notify = std::move(notify);
    if (content)
      request->content = *std::move(content);
    else  // a notice that returns nothing of it can be made; any other stays owed
      log::error("{}: {}", request->notify.envelope.queue_id, content.error().message());
    server->sessions.spawn("notice", answer_one(server, channel, std::move(request)));
  }
}

/// internal_mail_filter_classes; nullptr: nothing is checked.
Result<std::shared_ptr<const intake::CheckTables>> checks_of_own_mail(const config::Settings& s) {
  for (const auto& word : s.internal_mail_filter_classes)
    if (!iequals(word, "bounce") && !iequals(word, "notify"))
      log::warning("internal_mail_filter_classes: no such class: {}", word);
  if (!intake::own_mail(s, "bounce").inspected && !intake::own_mail(s, "notify").inspected) return nullptr;
  PEN_TRY_ASSIGN(auto checks, intake::CheckTables::open(intake::check_specs(s)));
  if (checks)
    for (const auto& problem : checks->problems()) log::warning("{}", map::advice(problem));
  return checks;
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto resolver, resolve::Resolve::open(resolve::from_settings(context.settings())));
  auto copies = bounce::copies_from(context.settings());
  if (!copies) {
    log::warning("{}; the postmaster gets no copies", copies.error().context());
    copies = bounce::PostmasterCopies{};
  }
  // Senders are told in any words rather than not at all.
  auto form = bounce::notice_form(context.config());
  if (!form.problem.empty()) log::warning("{}", form.problem);
  PEN_TRY_ASSIGN(auto checks, checks_of_own_mail(context.settings()));
  intake::Settings settings = intake::for_own_mail(context.settings(), std::move(checks));
  PEN_TRY_ASSIGN(settings.signing, signing::Signing::open(context.settings()));
  auto server = std::make_shared<Server>(context, std::move(resolver), std::move(form.settings), *std::move(copies),
                                         std::move(settings));
  server->queue.start();
  service::serve_conversations(
      context, {{conversation::kName,
                 [server](ipc::Opening o) { return notices(server, std::make_shared<Channel>(std::move(o))); }},
                {ipc::session_errors::kName,
                 [server](ipc::Opening o) { return session_errors(server, ErrorsChannel(std::move(o))); }}});
  return service::Hooks{.status = [server] {
    return std::vector<std::string>{fmt::format("notices queued {}, not due {}, failed {}; of sessions with errors {}",
                                                server->made, server->not_due, server->failed,
                                                server->session_notices.sent())};
  }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(argc, argv, {.name = "bounce", .summary = "returns notices of failure, delay and success"},
                           start);
}
