/// bounce: notices of failure, delay and success. See man/bounce.8.
#include <fmt/format.h>

#include <memory>

#include "bounce/reporter.h"
#include "bounce/session_notice.h"
#include "lib/base/log.h"
#include "lib/base/log_handlers.h"
#include "lib/base/text.h"
#include "lib/meaning/bounce/from_config.h"
#include "lib/receive/intake/from_settings.h"
#include "lib/receive/intake/program_intake.h"
#include "lib/receive/milter/other_filters.h"
#include "lib/receive/resolve/from_settings.h"
#include "lib/receive/resolve/key_records.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/service/conversations.h"
#include "lib/trust/signing/remote_keys.h"

namespace {

using namespace pen;
namespace conversation = ipc::bounce;
using Channel = ipc::Channel<conversation::ToBounce, conversation::FromBounce>;
using ErrorsChannel = ipc::Channel<ipc::session_errors::ToBounce, ipc::session_errors::FromBounce>;

// notices being made at once; beyond it qmgr's requests wait in the socket
constexpr std::size_t kMaxInHand = 100;
constexpr std::size_t kThreads = 4;
const intake::ProgramIntake::Logs kLogs{log::as_info, log::as_warning};

struct Server {
  Server(service::Context& context, std::shared_ptr<const resolve::Resolve> resolver, mail::DsnSettings notices,
         bounce::PostmasterCopies copies, intake::Settings settings, net::ResolverOptions dns,
         std::shared_ptr<const milter::Settings> milters)
      : loop(context.loop()),
        random(secure_random_u64()),
        pool(loop, kThreads),
        own(loop, pool, context.queue_path(ipc::kQmgrSocket), std::move(resolver), std::move(settings), kLogs),
        filters(milters ? std::make_unique<milter::OtherFilters>(loop, std::move(dns), std::move(milters), own.intake)
                        : nullptr),
        reporter(own.intake, std::move(notices), double_bounce(context.settings()), std::move(copies),
                 own_mail(context.settings(), "bounce"), random),
        session_notices(own.intake,
                        {.mail_name = context.settings().mail_name,
                         .hostname = context.settings().myhostname,
                         .origin = context.settings().myorigin,
                         .errors_to = context.settings().error_notice_recipient,
                         .bounces_to = context.settings().bounce_notice_recipient,
                         .obsolete_from = context.settings().header_from_format == config::FromFormat::obsolete,
                         .sender = double_bounce(context.settings()),
                         .own = own_mail(context.settings(), "notify")},
                        random),
        room(loop, kMaxInHand),
        draining(context.draining()),
        sessions(context.sessions()) {}

  static std::string double_bounce(const config::Settings& s) { return s.double_bounce_sender + "@" + s.myhostname; }

  intake::OwnMail own_mail(const config::Settings& s, std::string_view mail_class) const {
    intake::OwnMail mail = intake::own_mail(s, mail_class);
    if (filters) mail.filters = filters->for_own_mail();
    return mail;
  }

  async::Loop& loop;
  Random random;
  async::HandlerPool pool;
  intake::ProgramIntake own;
  std::unique_ptr<milter::OtherFilters> filters;  // nullptr: none for notices
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

/// By internal_mail_filter_classes.
bool inspects_own_mail(const config::Settings& s) {
  return intake::own_mail(s, "bounce").inspected || intake::own_mail(s, "notify").inspected;
}

/// nullptr: nothing is checked.
Result<std::shared_ptr<const intake::CheckTables>> checks_of_own_mail(const config::Settings& s) {
  for (const auto& word : s.internal_mail_filter_classes)
    if (!iequals(word, "bounce") && !iequals(word, "notify"))
      log::warning("internal_mail_filter_classes: no such class: {}", word);
  if (!inspects_own_mail(s)) return nullptr;
  PEN_TRY_ASSIGN(auto checks, intake::CheckTables::open(intake::check_specs(s)));
  if (checks)
    for (const auto& problem : checks->problems()) log::warning("{}", map::advice(problem));
  return checks;
}

/// non_smtpd_milters, if they see notices; nullptr: they do not.
Result<std::shared_ptr<const milter::Settings>> filters_of_own_mail(const config::Settings& s) {
  if (!inspects_own_mail(s)) return nullptr;
  PEN_TRY_ASSIGN(auto milters, milter::Settings::read(s, {.default_type = s.default_database_type}));
  if (milters->other.empty()) return nullptr;
  return milters;
}

// How long a start waits for the key process. Then notices that are to be signed stay owed.
constexpr seconds kKeysWait{15};

async::Task<void> begin(std::shared_ptr<Server> server, service::Context* context,
                        std::shared_ptr<signing::RemoteKeys> keys) {
  const async::Until until{.deadline = server->loop.now() + kKeysWait, .cancel = &server->draining};
  if (keys && !co_await keys->listed(until)) log::warning("the key process does not answer: notices to be signed wait");
  service::serve_conversations(
      *context, {{conversation::kName,
                  [server](ipc::Opening o) { return notices(server, std::make_shared<Channel>(std::move(o))); },
                  service::Askers::queue_manager},
                 {ipc::session_errors::kName,
                  [server](ipc::Opening o) { return session_errors(server, ErrorsChannel(std::move(o))); }}});
  context->ready();
}

/// What the settings say, and the tables that they name.
struct Reading {
  std::shared_ptr<const resolve::Resolve> resolve;
  std::shared_ptr<signing::RemoteKeys> keys;
  intake::Settings intake;
  net::ResolverOptions dns;
  std::shared_ptr<const milter::Settings> milters;  // nullptr: none for notices
};

Result<Reading> read(service::Context& context) {
  const config::Settings& s = context.settings();
  Reading out;
  PEN_TRY_ASSIGN(out.resolve, resolve::Resolve::open(resolve::from_config(context.config())));
  PEN_TRY_ASSIGN(auto checks, checks_of_own_mail(s));
  out.intake = intake::for_own_mail(s, std::move(checks));
  out.keys = signing::RemoteKeys::open(context.loop(), context.config(), log::as_warning);
  PEN_TRY_ASSIGN(out.intake.signing, signing::Signing::open(s, system_clock(), out.keys));
  out.intake.signed_form = intake::signed_form(s);
  PEN_TRY_ASSIGN(out.dns, resolve::name_servers(s, resolve::read_resolv_conf()));
  PEN_TRY_ASSIGN(out.milters, filters_of_own_mail(s));
  return out;
}

Result<void> look(service::Context& context) {
  PEN_TRY(read(context));
  return {};
}

Result<service::Hooks> start(service::Context& context) {
  PEN_TRY_ASSIGN(auto reading, read(context));
  auto copies = bounce::copies_from(context.settings());
  if (!copies) {
    log::warning("{}; the postmaster gets no copies", copies.error().context());
    copies = bounce::PostmasterCopies{};
  }
  // A notice in any words is better than none.
  auto form = bounce::notice_form(context.config());
  if (!form.problem.empty()) log::warning("{}", form.problem);
  resolve::watch_key_records(context.loop(), reading.intake.signing, reading.dns, context.draining(), log::as_said);
  auto server =
      std::make_shared<Server>(context, std::move(reading.resolve), std::move(form.settings), *std::move(copies),
                               std::move(reading.intake), std::move(reading.dns), std::move(reading.milters));
  server->own.queue.start();
  context.loop().spawn("begin", begin(server, &context, reading.keys));
  return service::Hooks{.status = [server] {
    std::vector<std::string> lines{fmt::format("notices queued {}, not due {}, failed {}; of sessions with errors {}",
                                               server->made, server->not_due, server->failed,
                                               server->session_notices.sent())};
    if (server->filters)
      for (auto& line : server->filters->status()) lines.push_back(std::move(line));
    return lines;
  }};
}

}  // namespace

int main(int argc, char** argv) {
  return pen::service::run(argc, argv,
                           {.name = "bounce",
                            .summary = "returns notices of failure, delay and success",
                            .announces_ready = true,
                            .look = look},
                           start);
}
