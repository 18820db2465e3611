#include "lib/receive/milter/client.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/wire.h"
#include "lib/net/helper/reach.h"

namespace pen::milter {
namespace {

// Content that a filter has not taken yet; more waits for it.
constexpr std::size_t kPush = 16 * 1024;
// Steps that are sent before their answers have come: a filter that cannot write its answers reads no more, so these
// must fit into the buffers between us.
constexpr std::size_t kAhead = 100;

/// What a failure is called in the log: "can't read SMFIC_MAIL reply packet" is known to readers of Postfix's.
std::string_view symbol(Stage stage) {
  static constexpr std::string_view kSymbols[] = {"SMFIC_CONNECT", "SMFIC_HELO",   "SMFIC_MAIL", "SMFIC_RCPT",
                                                  "SMFIC_DATA",    "SMFIC_HEADER", "SMFIC_EOH",  "SMFIC_BODY",
                                                  "SMFIC_BODYEOB", "SMFIC_UNKNOWN"};
  static_assert(std::size(kSymbols) == kStages);
  return kSymbols[static_cast<std::size_t>(stage)];
}

bool of_content(Stage stage) {
  return stage == Stage::header || stage == Stage::end_of_header || stage == Stage::body ||
         stage == Stage::end_of_message;
}

/// Values as this filter takes them: lines end in LF; without LEADSPC the blank behind the colon is not sent.
std::string field_data(const mail::HeaderField& field, bool leading_space) {
  std::string_view value = field.value;
  if (!leading_space && value.starts_with(' ')) value.remove_prefix(1);
  std::string text;
  text.reserve(value.size());
  for (auto end = value.find("\r\n"); end != std::string_view::npos; end = value.find("\r\n")) {
    text += value.substr(0, end);
    value.remove_prefix(end + 1);
  }
  text += value;
  std::string out = c_string(field.name);
  // libmilter ends the connection when a packet has more: the rest of a huge field is not shown.
  text.resize(std::min(text.size(), kMaxData - 1 - std::min(out.size(), kMaxData - 1)));
  out += c_string(text);
  return out;
}

}  // namespace

std::string connect_data(std::string_view name, std::string_view address, std::uint16_t port) {
  std::string out = c_string(name);
  const auto ip = parse_ip(address);
  if (!ip) return out + 'U';
  out += address.contains(':') ? '6' : '4';
  out += static_cast<char>(port >> 8);
  out += static_cast<char>(port & 0xff);
  return out + c_string(address);
}

Client::~Client() {
  if (stream_) --endpoint_.counts.live;
}

Verdict Client::default_verdict() const {
  Verdict v;
  v.by_default = true;
  if (misconfigured_ && filter_->default_action != DefaultAction::accept) {
    v.reply = {"451 4.3.5 Server configuration problem - try again later"};
    return v;
  }
  switch (filter_->default_action) {
    case DefaultAction::accept:
      break;
    case DefaultAction::reject:
      v.reply = {"550 5.5.0 Service unavailable"};
      break;
    case DefaultAction::tempfail:
      v.reply = {"451 4.7.1 Service unavailable - try again later"};
      break;
    case DefaultAction::shutdown:
      v.reply = {"421 4.7.1 Service unavailable - try again later"};
      break;
    case DefaultAction::quarantine:
      v.hold = true;
      v.hold_reason = "default_action";
      break;
  }
  return v;
}

Verdict Client::failed(const Error& error, std::string_view doing) {
  const bool bad_reply = error.is(MilterError::bad_reply);
  tools_.warn(bad_reply ? fmt::format("milter {}: malformed reply: {}", filter_->name, error.context())
                        : fmt::format("milter {}: {}: {}", filter_->name, doing, error.message()));
  misconfigured_ = bad_reply || error.is(MilterError::incompatible);
  state_ = State::failed;
  if (stream_) --endpoint_.counts.live;
  stream_.reset();
  unanswered_.clear();
  in_mail_ = false;
  return default_verdict();
}

async::Task<Result<async::Stream>> Client::reach(async::Until until) {
  std::vector<async::SocketAddress> ways = filter_->address.ways();
  if (filter_->address.has_name()) {
    auto found = co_await tools_.find_host(filter_->address.host, until);
    if (!found) co_return std::unexpected(std::move(found).error());
    for (const auto& address : *found) ways.push_back(async::SocketAddress::inet(address, filter_->address.port));
  }
  co_return co_await helper::reach(tools_.loop, std::move(ways), until);
}

async::Task<Result<void>> Client::negotiate(async::Until until) {
  std::string packet;
  append_packet(packet, Command::negotiate, filter_->offer.data());
  stream_->write(packet);
  auto answer = co_await read_packet(until);
  if (!answer) co_return std::unexpected(std::move(answer).error());
  const Packet reply = parse_packet(*answer);
  if (reply.code != static_cast<char>(Command::negotiate)) co_return fail(MilterError::malformed, "to the negotiation");
  auto agreed = Negotiation::parse(reply.data, filter_->offer);
  if (!agreed) co_return std::unexpected(std::move(agreed).error());
  agreed_ = *std::move(agreed);
  co_return Result<void>();
}

async::Task<Result<void>> Client::connect() {
  const async::Until until = within(filter_->connect_timeout);
  auto stream = co_await reach(until);
  if (!stream) co_return std::unexpected(std::move(stream).error());
  stream_.emplace(*std::move(stream));
  ++endpoint_.counts.live;
  co_return co_await negotiate(until);
}

async::Task<Verdict> Client::open() {
  session_accepted_ = message_accepted_ = in_mail_ = told_connect_ = told_helo_ = misconfigured_ = false;
  if (!endpoint_.may_try(tools_.loop.now())) {
    state_ = State::failed;  // said when it went down
    co_return default_verdict();
  }
  struct Try {  // the session may end while it waits
    Endpoint* at;
    ~Try() {
      if (at) at->given_up();
    }
  } attempt{&endpoint_};
  const auto connected = co_await connect();
  attempt.at = nullptr;
  if (!connected) {
    (void)endpoint_.failed(tools_.loop.now());
    co_return failed(connected.error(), "connect");
  }
  endpoint_.opened(agreed_);
  state_ = State::open;
  co_return Verdict{};
}

bool Client::waits(Stage stage) const {
  if (state_ != State::open) return state_ == State::closed || stage == Stage::mail;
  return !session_accepted_ && !message_accepted_ && agreed_.wants(stage) && agreed_.replies(stage);
}

void Client::send(Stage stage, std::string_view data, const MacroSource& macros) {
  const StageFacts& facts = facts_of(stage);
  const auto& own = facts.macros >= 0 ? agreed_.macros[static_cast<std::size_t>(facts.macros)] : std::nullopt;
  const auto& names = own ? *own : settings_.macros[static_cast<std::size_t>(stage)];
  const std::string values =
      names.empty() ? std::string() : macro_data(facts.command, names, macros, settings_.defaults);
  std::string& out = stream_->compose();
  if (!names.empty()) append_packet(out, Command::macros, values);
  append_packet(out, facts.command, data);
}

async::Task<Result<std::string>> Client::read_packet(async::Until until) {
  const auto named = [](Error error) -> std::unexpected<Error> {
    if (error.is(async::WaitError::timed_out)) return fail(MilterError::timed_out);
    return fail(MilterError::lost, {}, error.sys_errno());
  };
  auto head = co_await stream_->read_exact(4, until);
  if (!head) co_return named(head.error());
  const auto size = packet_size(*head);
  if (!size) co_return std::unexpected(size.error());
  if (*size > kMaxPacket) co_return fail(MilterError::malformed, fmt::format("a packet of {} bytes", *size));
  auto bytes = co_await stream_->read_exact(*size, until);
  if (!bytes) co_return named(bytes.error());
  co_return std::string(*bytes);
}

Result<std::optional<Final>> Client::buffered_final() {
  while (true) {
    const std::string_view have = stream_->buffered();
    if (have.size() < 5) return std::nullopt;
    const auto size = packet_size(have);
    if (!size) return std::unexpected(size.error());
    if (*size > kMaxPacket || have.size() - 4 < *size) return std::nullopt;
    auto final = parse_final(parse_packet(have.substr(4, *size)));
    stream_->consume(4 + *size);
    stream_->shrink_input();  // it may be long until the next one
    if (!final || *final) return final;
  }
}

async::Task<Result<Final>> Client::read_final(milliseconds timeout) {
  const SteadyTime began = tools_.loop.now();
  for (;;) {
    auto here = buffered_final();
    if (!here) co_return std::unexpected(std::move(here).error());
    if (*here) co_return **std::move(here);
    auto bytes = co_await read_packet(within(timeout, began));  // progress gives it more time
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    auto final = parse_final(parse_packet(*bytes));
    if (!final) co_return std::unexpected(std::move(final).error());
    if (*final) co_return **std::move(final);
  }
}

Verdict Client::verdict_of(Stage stage, Final final) {
  Verdict v;
  switch (final.answer) {
    case Answer::go_on:
    case Answer::skip:
      break;
    case Answer::accept:
      (stage == Stage::connect || stage == Stage::helo ? session_accepted_ : message_accepted_) = true;
      break;
    case Answer::discard:
      if (stage == Stage::connect || stage == Stage::helo || stage == Stage::unknown)
        tools_.warn(fmt::format("milter {}: DISCARD is not possible at {}", filter_->name, facts_of(stage).word));
      else
        v.discard = true;
      break;
    case Answer::refuse:
      v.reply = std::move(final.reply);
      if (settings_.soft_bounce)
        for (std::string& line : v.reply) {
          if (line.starts_with('5')) line[0] = '4';
          if (line.size() > 5 && line[4] == '5' && line[5] == '.') line[4] = '4';
        }
      break;
  }
  return v;
}

async::Task<Verdict> Client::ask(Stage stage, std::string_view data, const MacroSource& macros) {
  if (session_accepted_ || message_accepted_ || !agreed_.wants(stage)) co_return Verdict{};
  send(stage, data, macros);
  if (!agreed_.replies(stage)) co_return Verdict{};
  auto final = co_await read_final(of_content(stage) ? filter_->content_timeout : filter_->command_timeout);
  if (!final) co_return failed(final.error(), fmt::format("can't read {} reply packet", symbol(stage)));
  co_return verdict_of(stage, *std::move(final));
}

async::Task<Verdict> Client::event(Stage stage, std::string_view data, const MacroSource& macros) {
  const bool fresh = stage == Stage::mail;
  if (fresh) message_accepted_ = false;
  if (state_ == State::failed && !fresh) co_return default_verdict();
  if (state_ != State::open) {
    if (!fresh && endpoint_.only_mail()) co_return Verdict{};
    Verdict v = co_await open();
    if (state_ != State::open) co_return v;
  }
  // What it has missed, if it is only connected now.
  if (!std::exchange(told_connect_, true) && session_ && stage != Stage::connect) {
    Verdict v = co_await ask(Stage::connect, session_->connect, *session_->macros);
    if (v.refused() || state_ != State::open) co_return v;
  }
  if (stage == Stage::helo)
    told_helo_ = true;
  else if (stage != Stage::connect && !std::exchange(told_helo_, true) && session_ && !session_->helo.empty()) {
    Verdict v = co_await ask(Stage::helo, session_->helo, *session_->macros);
    if (v.refused() || state_ != State::open) co_return v;
  }
  if (fresh) in_mail_ = true;
  co_return co_await ask(stage, data, macros);
}

async::Task<Result<void>> Client::push() {
  if (stream_->queued() < kPush) co_return Result<void>();
  auto sent = co_await stream_->flush(within(filter_->content_timeout));
  if (sent) co_return sent;
  if (sent.error().is(async::WaitError::timed_out)) co_return fail(MilterError::timed_out);
  co_return fail(MilterError::lost, {}, sent.error().sys_errno());
}

bool Client::tell(Stage stage, std::string_view data, const MacroSource& macros) {
  if (!agreed_.wants(stage)) return false;
  send(stage, data, macros);
  if (!agreed_.replies(stage)) return false;
  unanswered_.push_back(stage);
  return !ahead_ || unanswered_.size() >= kAhead;
}

async::Task<Verdict> Client::settle() {
  for (std::size_t i = 0; i < unanswered_.size(); ++i) {
    const Stage stage = unanswered_[i];
    auto final = co_await read_final(filter_->content_timeout);
    if (!final) co_return failed(final.error(), fmt::format("can't read {} reply packet", symbol(stage)));
    if (stage == Stage::body && final->answer == Answer::skip) skip_body_ = true;
    Verdict v = verdict_of(stage, *std::move(final));
    if (!goes_no_further(v)) continue;
    endpoint_.ended_early();
    if (i + 1 < unanswered_.size() || end_sent_) {
      // Some filters still answer what they were sent in vain, and some do not: only a new connection is in step.
      --endpoint_.counts.live;
      stream_.reset();
      state_ = State::closed;
      in_mail_ = false;
    }
    unanswered_.clear();
    co_return v;
  }
  unanswered_.clear();
  co_return Verdict{};
}

async::Task<std::optional<Verdict>> Client::send_header(const Draft& draft, const MacroSource& macros) {
  static const NoMacros kNone;
  const bool wanted = agreed_.wants(Stage::header);
  for (const mail::HeaderField& field : draft.fields.all()) {
    if (!wanted) break;
    if (field.hidden || field.name.empty()) continue;
    if (tell(Stage::header, field_data(field, agreed_.leading_space()), kNone))
      if (Verdict v = co_await settle(); goes_no_further(v)) co_return v;
    if (stream_->queued() >= kPush)
      if (auto sent = co_await push(); !sent) co_return failed(sent.error(), "can't write SMFIC_HEADER packet");
  }
  if (tell(Stage::end_of_header, {}, macros))
    if (Verdict v = co_await settle(); goes_no_further(v)) co_return v;
  co_return std::nullopt;
}

async::Task<std::optional<Verdict>> Client::send_body(intake::HeldContent body) {
  if (!agreed_.wants(Stage::body)) co_return std::nullopt;
  for (;;) {
    Endpoints::Flight flight(endpoints_);
    auto piece = co_await body.next(flight.size());
    if (!piece) co_return failed(piece.error(), "content");
    if (piece->empty()) co_return std::nullopt;
    for (std::string_view rest = *piece; !rest.empty();) {
      const std::string_view part = rest.substr(0, kMaxData);
      rest.remove_prefix(part.size());
      const bool last = rest.empty() && body.left() == 0;
      append_packet(stream_->compose(), Command::body, part);
      if (!agreed_.replies(Stage::body)) {
        if (auto sent = co_await push(); !sent) co_return failed(sent.error(), "can't write SMFIC_BODY packet");
        continue;
      }
      unanswered_.push_back(Stage::body);
      if (last && ahead_) break;  // a larger body is not held twice, here and on its way
      if (Verdict v = co_await settle(); goes_no_further(v)) co_return v;
      if (skip_body_) co_return std::nullopt;
    }
  }
}

/// Collects the changes that one filter asks for.
struct Client::Changes {
  Answered& out;
  const MakeBody& make_body;
  mail::BdatScanner scanner{mail::WirePolicy{.replace_bare_cr = true}};
  std::size_t bytes = 0;
  bool body_ended = false;  // pieces of a body come in one run

  async::Task<Result<void>> take(Edit edit, async::Until until) {
    if (edit.kind != Edit::Kind::replace_body) {
      body_ended = out.body != nullptr;
      bytes += edit.name.size() + edit.value.size();
      if (out.edits.size() == kMaxEdits || bytes > kMaxEditBytes) co_return fail(MilterError::too_much);
      out.edits.push_back(std::move(edit));
      co_return Result<void>();
    }
    if (body_ended) co_return fail(MilterError::incompatible, "pieces of a body between other changes");
    if (!out.body) {
      out.body = make_body();
      scanner.feed("\r\n", out.body->content());  // what follows is no header
    }
    scanner.feed(edit.value, out.body->content());
    if (out.body->must_drain()) co_await out.body->drain(until);
    co_return Result<void>();
  }
  async::Task<void> end(async::Until until) {
    if (!out.body) co_return;
    scanner.finish(out.body->content());
    co_await out.body->end(until);
  }
};

async::Task<Result<Final>> Client::read_edits(Answered& out, const MakeBody& make_body) {
  Changes changes{.out = out, .make_body = make_body};
  const SteadyTime began = tools_.loop.now();
  for (;;) {
    auto bytes = co_await read_packet(within(filter_->content_timeout, began));
    if (!bytes) co_return std::unexpected(std::move(bytes).error());
    const Packet packet = parse_packet(*bytes);
    auto edit = parse_edit(packet, agreed_.actions);
    if (!edit) co_return std::unexpected(std::move(edit).error());
    if (*edit) {
      if (auto taken = co_await changes.take(**std::move(edit), within(filter_->content_timeout)); !taken)
        co_return std::unexpected(std::move(taken).error());
      continue;
    }
    auto final = parse_final(packet);
    if (!final) co_return std::unexpected(std::move(final).error());
    if (!*final) continue;
    co_await changes.end(within(filter_->content_timeout));
    co_return **std::move(final);
  }
}

async::Task<Client::Answered> Client::message(std::shared_ptr<const Draft> draft, intake::HeldContent body,
                                              const MakeBody& make_body, const MacroSource& macros) {
  Answered out;
  if (state_ == State::failed) {
    out.verdict = default_verdict();
    co_return out;
  }
  if (!ready() || session_accepted_ || message_accepted_) co_return out;
  ++endpoint_.counts.messages;
  out.leading_space = agreed_.leading_space();
  ahead_ = endpoint_.goes_on();
  end_sent_ = skip_body_ = false;
  if (auto early = co_await send_header(*draft, macros)) {
    out.verdict = *std::move(early);
    co_return out;
  }
  if (auto early = co_await send_body(std::move(body))) {
    out.verdict = *std::move(early);
    co_return out;
  }
  send(Stage::end_of_message, {}, macros);
  end_sent_ = true;
  if (Verdict v = co_await settle(); goes_no_further(v)) {
    out.verdict = std::move(v);
    co_return out;
  }
  auto final = co_await read_edits(out, make_body);
  if (!final) {
    out.edits.clear();
    const bool half_replaced = std::exchange(out.body, nullptr) != nullptr;
    out.verdict = failed(final.error(), "can't read SMFIC_BODYEOB reply packet");
    // Nobody knows that the old body may pass: the filter was about to take it away.
    if (half_replaced && !out.verdict.refused() && !out.verdict.hold)
      out.verdict.reply = {"451 4.7.1 Service unavailable - try again later"};
    co_return out;
  }
  in_mail_ = false;
  endpoint_.went_on();
  out.verdict = verdict_of(Stage::end_of_message, *std::move(final));
  co_return out;
}

const Edit* Client::Answered::quarantine() const {
  const auto found = std::ranges::find(edits.rbegin(), edits.rend(), Edit::Kind::quarantine, &Edit::kind);
  return found == edits.rend() ? nullptr : &*found;
}

void Client::abort() {
  message_accepted_ = false;
  if (!std::exchange(in_mail_, false) || !ready()) return;
  std::string packet;
  append_packet(packet, Command::abort, {});
  stream_->write(packet);
}

async::Task<void> Client::quit() {
  if (!ready()) co_return;
  abort();
  std::string packet;
  append_packet(packet, Command::quit, {});
  stream_->write(packet);
  (void)co_await stream_->flush(within(seconds(1)));
  --endpoint_.counts.live;
  stream_.reset();
  state_ = State::closed;
}

}  // namespace pen::milter
