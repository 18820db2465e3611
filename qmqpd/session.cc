#include "qmqpd/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/reply.h"
#include "lib/receive/intake/content_turn.h"
#include "lib/receive/intake/held_content.h"
#include "lib/suite/events/emitter.h"

namespace pen::qmqpd {
namespace {

using intake::Outcome;

constexpr std::size_t kPiece = 64 * 1024;
// What a client still sends after an early reply is read for so long, so that the connection is not reset before the
// client has read the reply.
constexpr seconds kLinger{5};
constexpr std::string_view kReplying = "sending completion status";

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

}  // namespace

async::Task<void> Server::serve(std::shared_ptr<Server> self, async::Listener::Accepted accepted) {
  ++self->counts_.sessions;
  ++self->counts_.live;
  {
    const auto session = std::make_unique<Session>(*self, std::move(accepted.stream), accepted.peer);
    co_await session->run();
  }
  --self->counts_.live;
}

Session::Session(Server& server, async::Stream stream, const async::SocketAddress& peer)
    : server_(server),
      stream_(std::move(stream)),
      number_(events::next_session()),
      end_(server.loop_.now() + Server::kWhole) {
  client_.protocol = "QMQP";
  client_.name = client_.reverse_name = "unknown";
  client_.address = peer.is_unix() ? std::string("127.0.0.1") : peer.host;
  if (istarts_with(client_.address, "::ffff:") && client_.address.contains('.'))
    client_.address.erase(0, 7);  // IPv4 on an IPv6 socket
  client_.port = peer.port;
}

async::Until Session::until() const {
  return {.deadline = std::min(server_.loop_.now() + server_.options_.timeout, end_), .cancel = &server_.stopping_};
}

async::Task<void> Session::learn_name() {
  resolve::PeerName who = co_await server_.options_.find_name(client_.address, until());
  if (who.verified == resolve::PeerName::State::ok) client_.name = std::move(who.name);
  if (who.reverse == resolve::PeerName::State::ok) client_.reverse_name = std::move(who.reverse_name);
  shown_ = fmt::format("{}[{}]", client_.name, client_.address);
  if (server_.options_.show_port) shown_ += fmt::format(":{}", client_.port);
}

async::Task<void> Session::run() {
  co_await learn_name();
  log::info("connect from {}", shown_);
  metrics::qmqpd_connections.add();
  Answer answer = co_await admit();
  if (!answer) answer = co_await receive();
  if (answer) co_await say(*std::move(answer));
  log::info("disconnect from {}", shown_);
}

async::Task<Session::Answer> Session::admit() {
  const auto may = co_await server_.intake_.tables.ask(
      [this] { return server_.options_.clients.matches_host(client_.name, client_.address); });
  if (!may) {
    log::warning("qmqpd_authorized_clients: {}", may.error().message());
    co_return Reply{'Z', "Error: server configuration error"};
  }
  if (!*may) co_return Reply{'D', fmt::format("Error: {} is not authorized to use this service", shown_)};
  admitted_ = true;
  co_return std::nullopt;
}

async::Task<Session::Answer> Session::receive() {
  message_ = std::make_unique<intake::Message>(server_.intake_, mail::MessageFacts{});
  message_->assign_queue_id();
  queue_id_ = message_->queue_id();
  message_->envelope().client = client_;
  message_->complete_header(true);
  message_->may_be_signed(true);
  if (events::wanted()) message_->session(events::session_text(number_));
  log::info("{}: client={}", queue_id_, shown_);
  Frame frame(server_.options_.limits);
  if (Answer early = co_await read(frame); early || !whole_) co_return early;
  co_return co_await finish();
}

async::Task<Session::Answer> Session::read(Frame& frame) {
  for (;;) {
    stream_.limit_reads(server_.intake_.bodies.read_limit());
    const auto part = co_await stream_.read_some(kPiece, until());
    if (!part) {
      broken_off(part.error(), frame.doing());
      co_return std::nullopt;
    }
    for (std::string_view rest = *part; !rest.empty() && !whole_;) {
      const Frame::Step step = frame.next(rest);
      rest.remove_prefix(step.taken);
      if (step.kind == Frame::Kind::content)
        take_content(frame, step.text);
      else if (Answer early = take(frame, step))
        co_return early;
    }
    if (whole_) co_return std::nullopt;
    if (staged_ && staged_->must_drain()) {
      stream_.shrink_input();
      co_await staged_->drain(own_time());
    }
  }
}

Session::Answer Session::take(const Frame& frame, const Frame::Step& step) {
  switch (step.kind) {
    case Frame::Kind::more:
    case Frame::Kind::content:
      break;
    case Frame::Kind::end:
      whole_ = true;
      break;
    case Frame::Kind::sender:
    case Frame::Kind::recipient:
      if (fault_) break;
      // A line of SMTP, of the log or of a mailbox would end at such a character.
      if (has_control(step.text))
        fault_ = Reply{'D', "Error: control character in an address"};
      else if (step.kind == Frame::Kind::sender)
        message_->envelope().sender = step.text;
      else if (message_->memory_is_short())
        fault_ = Reply{'Z', "Error: too many recipients of all clients, try again later"};
      else
        message_->add_recipient({.address = std::string(step.text), .original = {}, .orcpt = {}, .notify = 0});
      break;
    case Frame::Kind::malformed:
    case Frame::Kind::too_long: {
      const std::string_view what =
          step.kind == Frame::Kind::malformed ? "netstring format error" : "netstring length exceeds storage limit";
      log_end(what, frame.doing());
      return Reply{'D', fmt::format("{} while {}", what, frame.doing())};
    }
  }
  return std::nullopt;
}

void Session::take_content(const Frame& frame, std::string_view text) {
  if (frame.content_size() <= Server::kHeld) {
    held_ += text;
    return;
  }
  if (!staged_) {
    staged_ = message_->new_body(0);
    staged_->content().line_end();
  }
  stager_.feed(text, staged_->content());
}

async::Task<intake::Commit> Session::build_body() {
  constexpr std::uint64_t kEmptyLine = 2;
  intake::Intake& intake = server_.intake_;
  std::optional<intake::HeldContent> staged;
  if (staged_) {
    stager_.finish(staged_->content());
    co_await staged_->end(own_time());
    if (auto bad = intake::outcome_of(*staged_); bad.outcome != Outcome::ok) co_return bad;
    staged.emplace(intake.pool, *staged_, kEmptyLine);
  }
  if (const auto& tenants = server_.options_.tenants; tenants && !tenants->field().empty()) {
    const auto may = co_await intake.tables.ask([&] { return tenants->may_say(client_.name, client_.address); });
    if (!may) co_return intake::Commit{Outcome::lookup_failed, may.error().message()};
    names_tenant_ = *may;
    message_->take_field(tenants->field());
  }
  if (const auto& priorities = server_.options_.priorities) {
    const auto may = co_await intake.tables.ask([&] { return priorities->may_say(client_.name, client_.address); });
    if (!may) co_return intake::Commit{Outcome::lookup_failed, may.error().message()};
    says_priority_ = *may;
    if (!priorities->field().empty()) message_->take_field(priorities->field());
  }
  intake::Body& body = message_->open_body(staged ? staged->left() : held_.size());
  mail::BdatScanner scanner({.replace_bare_cr = intake.settings.replace_bare_cr});
  intake::ContentTurn turn(server_.loop_, server_.scans_, body.content());
  for (std::string piece = std::move(held_);;) {
    for (std::string_view rest = piece; !rest.empty();) rest.remove_prefix(co_await turn.feed(scanner, rest));
    if (body.must_drain()) co_await body.drain(own_time());
    if (!staged) break;
    auto more = co_await staged->next(kPiece);
    if (!more) co_return intake::Commit{Outcome::spool_failed, "spool file: " + more.error().message()};
    if (more->empty()) break;
    piece = *std::move(more);
  }
  scanner.finish(body.content());
  staged.reset();
  staged_.reset();
  co_return intake::Commit{Outcome::ok, {}};
}

async::Task<Session::Reply> Session::finish() {
  if (fault_) co_return *std::move(fault_);
  if (message_->recipients() == 0) co_return Reply{'D', "Error: no recipients specified"};
  const intake::Commit commit = co_await judge_and_commit();
  if (commit.outcome != Outcome::ok && commit.outcome != Outcome::refused && !commit.text.empty())
    log::warning("{}: {}: {}", queue_id_, intake::outcome_text(commit.outcome), commit.text);
  co_return reply_to(commit);
}

async::Task<intake::Commit> Session::judge_and_commit() {
  if (auto bad = co_await build_body(); bad.outcome != Outcome::ok) co_return bad;
  const std::string& id = message_->body()->content().summary().message_id_value;
  log::info("{}: message-id={}", queue_id_, id.empty() ? "<>" : std::string_view(id));
  if (server_.options_.filters) {
    auto judged = co_await server_.options_.filters->judge(*message_, {.deadline = end_});
    if (judged.outcome == milter::OtherFilters::Outcome::put_off) {
      log::warning("{}: {}", queue_id_, judged.why);
      co_return intake::Commit{Outcome::refused, std::move(judged.reply)};
    }
    if (judged.commit.outcome != Outcome::ok) co_return std::move(judged.commit);
  }
  if (server_.options_.tenants) {
    auto tenant = co_await tenant_of();
    if (!tenant) co_return intake::Commit{Outcome::lookup_failed, tenant.error().message()};
    message_->envelope().tenant = *std::move(tenant);
  }
  if (server_.options_.priorities) {
    const auto priority = co_await priority_of();
    if (!priority) co_return intake::Commit{Outcome::lookup_failed, priority.error().message()};
    message_->envelope().priority = *priority;
  }
  co_return co_await message_->commit({.deadline = server_.loop_.now() + server_.intake_.settings.enqueue_timeout});
}

async::Task<Result<std::string>> Session::tenant_of() {
  tenant::Clues clues;
  if (const auto& sender = message_->envelope().sender; !sender.empty())
    clues.sender = server_.intake_.resolve->rewrite(sender);
  if (names_tenant_) clues.header = message_->taken_field(server_.options_.tenants->field());
  co_return co_await server_.intake_.tables.ask(
      [tenants = server_.options_.tenants, clues = std::move(clues)] { return tenants->of(clues); });
}

async::Task<Result<std::int8_t>> Session::priority_of() {
  const auto& priorities = server_.options_.priorities;
  tenant::PriorityClues clues{.tenant = message_->envelope().tenant, .trusted = says_priority_};
  if (const auto& sender = message_->envelope().sender; !sender.empty())
    clues.sender = server_.intake_.resolve->rewrite(sender);
  if (!priorities->field().empty()) clues.header = message_->taken_field(priorities->field());
  auto found =
      co_await server_.intake_.tables.ask([priorities, clues = std::move(clues)] { return priorities->of(clues); });
  if (!found) co_return std::unexpected(std::move(found).error());
  if (found->wanted > found->priority)
    log::info("{}: {}: {} becomes {}: the client is none of message_priority_clients", queue_id_, priorities->field(),
              found->wanted, found->priority);
  co_return found->priority;
}

Session::Reply Session::reply_to(const intake::Commit& commit) const {
  switch (commit.outcome) {
    case Outcome::ok:
      return {'K', "Ok: queued as " + queue_id_};
    case Outcome::too_large:
      return {'D', "Error: message too large"};
    case Outcome::too_many_hops:
      return {'D', "Error: too many hops"};
    case Outcome::too_many_fields:
      return {'D', "Error: too many header fields"};
    case Outcome::refused:
      return {commit.text.starts_with('4') ? 'Z' : 'D', "Error: " + commit.text};
    case Outcome::expansion_limit:
      return {'Z', "Error: 4.6.0 alias expansion exceeds limit"};
    case Outcome::not_signed:
      return {'Z', "Error: 4.7.5 the message cannot be signed now"};
    case Outcome::no_space:
    case Outcome::lookup_failed:
    case Outcome::unavailable:
    case Outcome::spool_failed:
      break;
  }
  return {'Z', "Error: queue file write error"};
}

async::Task<void> Session::say(Reply reply) {
  if (reply.code == 'K') {
    ++server_.counts_.messages;
    metrics::qmqpd_messages.add();
  } else {
    ++server_.counts_.refused;
    metrics::qmqpd_rejects.add(reply.code == 'D' ? metrics::ReplyClass::permanent : metrics::ReplyClass::transient);
    tell_rejected(reply);
    if (whole_) log::warning("{}: {}: {}", queue_id_, shown_, reply.text);
    staged_.reset();  // a session that waits holds nothing
    message_.reset();
    if (server_.options_.error_delay > milliseconds(0))
      (void)co_await server_.loop_.sleep(server_.options_.error_delay, {.cancel = &server_.stopping_});
  }
  stream_.write(fmt::format("{}:{}{},", reply.text.size() + 1, reply.code, reply.text));
  if (const auto sent = co_await stream_.shutdown(own_time()); !sent) co_return broken_off(sent.error(), kReplying);
  if (!admitted_ || whole_) co_return;
  const async::Until linger{.deadline = server_.loop_.now() + kLinger, .cancel = &server_.stopping_};
  while (co_await stream_.read_some(kPiece, linger)) {
  }
}

void Session::broken_off(const Error& error, std::string_view doing) {
  ++server_.counts_.broken_off;
  metrics::qmqpd_connections_lost.add();
  const std::string_view why = error.is(async::WaitError::timed_out)   ? "read/write timeout"
                               : error.is(async::WaitError::cancelled) ? "the mail system stops"
                                                                       : "lost connection";
  log_end(why, doing);
}

void Session::log_end(std::string_view why, std::string_view doing) const {
  log::info("{}: {}: {} while {}", queue_id_, shown_, why, doing);
}

void Session::tell_rejected(const Reply& reply) const {
  if (!events::wanted()) return;
  using events::Field;
  events::Event e(events::Type::rejected, events::now());
  e.text(Field::client_name, client_.name)
      .text(Field::client_address, client_.address)
      .number(Field::client_port, client_.port)
      .text(Field::proto, client_.protocol)
      .text(Field::session, events::session_text(number_))
      .text(Field::stage, whole_      ? "END-OF-MESSAGE"
                          : admitted_ ? "DATA"
                                      : "CONNECT")
      .text(Field::action, "reject")
      .text(Field::reply, reply.code + reply.text);
  if (message_) e.text(Field::queue_id, queue_id_).text(Field::from, message_->envelope().sender);
  constexpr std::string_view kError = "Error: ";
  std::string_view text = reply.text;
  if (text.starts_with(kError)) text.remove_prefix(kError.size());
  events::tell(e.text(Field::dsn, mail::enhanced_code(text).value_or(std::string_view())));
}

}  // namespace pen::qmqpd
