#include "smtp/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ranges>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/data_form.h"
#include "lib/mail/seven_bit.h"
#include "lib/map/map.h"
#include "lib/meaning/smtp/tls.h"
#include "lib/suite/events/emitter.h"
#include "smtp/rewritten.h"
#include "smtp/through.h"

namespace pen::smtp {

using async::Task;
using async::Until;
using async::WaitError;
using ipc::delivery::Stage;

namespace {
constexpr std::size_t kMaxReplyLine = 4096;  // RFC 5321 asks for 512; longer lines are cut
// read and written at once: half of the stream's high water
constexpr std::size_t kContentChunk = 128 * 1024;
constexpr milliseconds kQuitWait{2000};

Peer peer_of(const ipc::Destination& d) {
  if (!d.address.empty()) return {d.host, d.host + "[" + d.address + "]"};
  return {d.host, d.host + "[" + d.unix_path + "]"};
}
async::SocketAddress socket_of(const ipc::Destination& d) {
  return d.address.empty() ? async::SocketAddress::unix(d.unix_path) : async::SocketAddress::inet(d.address, d.port);
}
}  // namespace

std::string connect_failure_text(const ipc::Destination& destination, const Error& error) {
  std::string why = error.message();
  if (error.is(WaitError::timed_out))
    why = std::strerror(ETIMEDOUT);
  else if (error.sys_errno() != 0)
    why = std::strerror(error.sys_errno());
  return "connect to " + destination.shown() + ": " + why;
}

Connection::Connection(async::Loop& loop, Host& host, std::uint64_t id, ipc::Destination destination,
                       const Settings& settings, std::unique_ptr<TlsPlan> tls, ipc::delivery::Through through)
    : loop_(loop),
      host_(host),
      id_(id),
      destination_(std::move(destination)),
      through_(std::move(through)),
      settings_(settings),
      engine_(settings, peer_of(destination_)),
      tls_(std::move(tls)),
      wake_(loop),
      gate_(loop) {
  // On connections with only the other classes of errors nothing has been said yet.
  if (settings_.told.has(mail::ErrorClass::protocol) || settings_.told.has(mail::ErrorClass::data))
    transcript_ = std::make_unique<mail::Transcript>(mail::Transcript::Side::client);
  if (!settings_.trace) return;
  if (!transcript_) transcript_ = std::make_unique<mail::Transcript>(mail::Transcript::Side::client);
  transcript_->listen([shown = destination_.shown()](bool ours, std::string_view line) {
    log::info("{} {}: {}", ours ? '>' : '<', shown, line);
  });
}

mail::ErrorClasses Connection::errors() const {
  mail::ErrorClasses all = errors_;
  all.add(engine_.errors());
  return all;
}

void Connection::on_line(std::string_view line, SteadyTime now) {
  std::string replaced;
  if (settings_.reply_filter) {
    auto found = settings_.reply_filter->lookup(line);
    if (!found) {
      // Unfiltered, the line may not mean what it says.
      log::warning("{}: {}: {}", destination_.shown(), settings_.lmtp ? "lmtp_reply_filter" : "smtp_reply_filter",
                   found.error().message());
      errors_.add(mail::ErrorClass::data);
      if (!end_) end_ = End::content_error;
      cancel_.raise();
      return;
    }
    if (*found) {
      log::info("{}: replacing server reply \"{}\" with \"{}\"", destination_.shown(), printable(line, 200),
                printable(**found, 200));
      replaced = **std::move(found);
      line = replaced;
    }
  }
  if (transcript_) transcript_->reply(line);
  if (auto* trace = traced()) trace->reply(line);
  engine_.on_line(line, now);
}

void Connection::take_line(std::string_view line) {
  const SteadyTime now = loop_.now();
  on_line(line, now);
  if (!engine_.in_reply()) progress_ = now;
}

Connection::~Connection() = default;

void Connection::submit(std::shared_ptr<Work> work) {
  const Job* job = &work->job;
  if (work->notice) carried_notices_ = true;
  works_.emplace(job, std::move(work));
  engine_.submit(job, loop_.clock().now());
  pump();
}

void Connection::request_close() {
  engine_.request_close();
  pump();
  // The connection is not open yet and has no jobs: there is no reason to go on connecting.
  given_up_ = !engine_.ready() && !engine_.ended() && engine_.jobs_in_hand() == 0;
  if (given_up_ || engine_.ended()) cancel_.raise();
}

milliseconds Connection::timeout_of(Step step) const {
  switch (step) {
    case Step::greeting:
    case Step::ehlo:
    case Step::helo:
    case Step::lhlo:
    case Step::auth:
      return settings_.helo_timeout;
    case Step::starttls:
      return settings_.starttls_timeout;
    case Step::rset:
      return settings_.rset_timeout;
    case Step::xforward:
      return settings_.xforward_timeout;
    case Step::mail:
      return settings_.mail_timeout;
    case Step::rcpt:
      return settings_.rcpt_timeout;
    case Step::data:
      return settings_.data_init_timeout;
    case Step::content:
      return settings_.data_xfer_timeout;
    case Step::end_of_data:
    case Step::bdat:
      return settings_.data_done_timeout;
    case Step::quit:
      return settings_.quit_timeout;
  }
  return settings_.data_done_timeout;
}

void Connection::check_time() {
  if (!stream_ || end_ || engine_.ended()) return;
  const auto step = engine_.awaiting();
  if (!step || loop_.now() < progress_ + timeout_of(*step)) return;
  end_ = End::timed_out;
  cancel_.raise();
}

void Connection::give_up(mail::DeliveryStatus status) {
  Ended ended;
  ended.status = std::move(status);
  ended.trouble = given_up_ ? Trouble::none : Trouble::local;
  take_back(ended);
  host_.closed(*this, ended);
}

namespace {
metrics::Connected connected_as(Trouble trouble) {
  switch (trouble) {
    case Trouble::timed_out:
      return metrics::Connected::timed_out;
    case Trouble::refused:
      return metrics::Connected::refused;
    case Trouble::unreachable:
      return metrics::Connected::unreachable;
    default:
      return metrics::Connected::other;
  }
}
}  // namespace

Ended Connection::unreached(Trouble trouble, std::string text) {
  Ended ended;
  ended.trouble = trouble;
  ended.status =
      mail::make_status(mail::Action::deferred, trouble == Trouble::source ? "4.3.0" : "4.4.1", std::move(text));
  if (trouble != Trouble::none && trouble != Trouble::source) metrics::smtp_connections.add(connected_as(trouble));
  take_back(ended);
  return ended;
}

Ended Connection::connect_failure(const Error& error) {
  if (!through_.source.empty() && !destination_.source.empty() && error.is_errno(EADDRNOTAVAIL))
    return unreached(Trouble::source, source_trouble(through_, "cannot send from " + destination_.source + ": " +
                                                                   std::strerror(EADDRNOTAVAIL)));
  Ended ended;
  ended.status = mail::make_status(mail::Action::deferred, "4.4.1", connect_failure_text(destination_, error));
  if (error.is(WaitError::timed_out) || error.is_errno(ETIMEDOUT))
    ended.trouble = Trouble::timed_out;
  else if (error.is(WaitError::cancelled))
    ended.trouble = Trouble::none;
  else if (error.is_errno(ECONNREFUSED) || error.is_errno(ENOENT))
    ended.trouble = Trouble::refused;
  else if (error.is_errno(EMFILE) || error.is_errno(ENFILE) || error.is_errno(ENOMEM) || error.is_errno(ENOBUFS) ||
           // Without source address of our own, EADDRNOTAVAIL means that this host does not have the address family.
           (error.is_errno(EADDRNOTAVAIL) && !destination_.source.empty()))
    ended.trouble = Trouble::local;
  else
    ended.trouble = Trouble::unreachable;
  if (ended.trouble != Trouble::none) metrics::smtp_connections.add(connected_as(ended.trouble));
  if (ended.trouble == Trouble::local) errors_.add(mail::ErrorClass::resource);
  take_back(ended);
  return ended;
}

/// No job had any effect; those of the engine are handed back.
void Connection::take_back(Ended& ended) {
  engine_.finish(End::closed, loop_.now());
  for (auto& event : engine_.take_events())
    if (auto* last = std::get_if<Ended>(&event)) ended.unstarted = std::move(last->unstarted);
}

Task<bool> Connection::connect() {
  Until until{async::Until{}.deadline, &cancel_};
  if (settings_.connect_timeout.count() > 0) until.deadline = loop_.now() + settings_.connect_timeout;
  std::optional<Ended> failed;
  if (through_.proxy != 0) {
    auto reached = co_await reach(loop_, destination_, through_, until);
    if (reached)
      stream_.emplace(std::move(*reached));
    else
      failed = unreached(reached.error().trouble, std::move(reached.error().text));
  } else {
    auto stream = co_await async::connect(loop_, socket_of(destination_), until, destination_.source);
    // EADDRNOTAVAIL is of the source: nobody else has it, and without it the system chooses one.
    if (!stream && settings_.bind_optional && !destination_.source.empty() && stream.error().is_errno(EADDRNOTAVAIL)) {
      log::warning("{}: cannot send from {}: {}: the system chooses the source address", destination_.shown(),
                   destination_.source, std::strerror(stream.error().sys_errno()));
      destination_.source.clear();
      stream = co_await async::connect(loop_, socket_of(destination_), until);
    }
    if (stream)
      stream_.emplace(std::move(*stream));
    else
      failed = connect_failure(stream.error());
  }
  if (!failed) co_return true;
  if (auto* trace = traced()) trace->end(failed->status.text);
  host_.closed(*this, *failed);
  co_return false;
}

Task<void> Connection::run() {
  connect_begun_ = loop_.clock().wall_now();
  connect_start_ = progress_ = loop_.clock().now();
  if (auto* trace = traced())
    trace->mark("connect to " + destination_.shown() + (source().empty() ? "" : " from source " + source()));
  begun_ = true;
  if (!co_await connect()) co_return;
  progress_ = loop_.clock().now();
  metrics::smtp_connections.add(metrics::Connected::ok);
  if (auto* trace = traced()) trace->mark("connected");
  connect_time_ = std::chrono::duration_cast<microseconds>(progress_ - connect_start_);
  if (!destination_.address.empty()) engine_.set_round_trip(connect_time_);
  gate_.spawn("writer " + destination_.shown(), writer());
  if (settings_.wrapped) co_await start_tls();

  while (!end_ && !engine_.ended()) {
    if (engine_.handshake_due()) {
      co_await start_tls();
      pump();
      continue;
    }
    auto line = co_await stream_->read_line(kMaxReplyLine, {.deadline = kNever, .cancel = &cancel_});
    if (!line && line.error().is(WaitError::line_too_long)) {
      take_line(stream_->buffered().substr(0, kMaxReplyLine));
      if (engine_.ended()) break;  // by a line that is no reply; nobody would end the wait for its end
      if (auto r = co_await stream_->discard_line({.deadline = kNever, .cancel = &cancel_}); !r && !end_) {
        end_ = End::closed;
      }
    } else if (!line) {
      if (!end_ && !engine_.ended()) {
        if (!given_up_) salvage_lines();
        end_ = End::closed;
      }
    } else {
      take_line(*line);
      take_lines();
    }
    pump();
  }

  lingers_ = engine_.said_quit() && !end_ && stream_->is_open();
  engine_.finish(end_.value_or(End::by_engine), loop_.now());
  handle_events();
  if (lingers_) {
    // QUIT is a courtesy, and its answer changes nothing: only a session that wants this one's place has to wait for
    // it.
    cancel_.reset();
    const Until until{.deadline = loop_.now() + std::min(kQuitWait, settings_.quit_timeout), .cancel = nullptr};
    if (co_await stream_->shutdown(until)) {
      while (co_await stream_->read_some(kMaxReplyLine, until)) {
      }
    }
  }
  stream_->close();
}

/// Shakes hands. Afterwards either the engine continues or the connection is over.
Task<void> Connection::start_tls() {
  PEN_CHECK(tls_ != nullptr, "no TLS without a plan");
  if (!stream_->buffered().empty()) {  // sent after the go-ahead: the engine decides
    on_line(stream_->buffered().substr(0, kMaxReplyLine), loop_.now());
    co_return;
  }
  const Until until{.deadline = loop_.now() + settings_.starttls_timeout, .cancel = &cancel_};
  // Send STARTTLS first in any case: a peer may say "go ahead" before it was asked.
  if (auto sent = co_await stream_->flush(until); !sent) {
    end_ = sent.error().is(WaitError::timed_out) ? End::timed_out : End::closed;
    co_return;
  }
  if (!stream_->buffered().empty()) {
    on_line(stream_->buffered().substr(0, kMaxReplyLine), loop_.now());
    co_return;
  }
  auto info = co_await tls::connect(*stream_, tls_->context, tls_->options, until);
  progress_ = loop_.clock().now();
  if (info)
    metrics::smtp_tls_sessions.add(metrics::version_of(info->protocol));
  else
    metrics::smtp_tls_failures.add();
  if (events::wanted()) {
    if (info) tls_facts_ = {info->protocol, info->cipher, info->trusted};
    using events::Field;
    events::Event e(info ? events::Type::tls : events::Type::tls_failed, events::now());
    e.text(Field::relay, destination_.shown()).text(Field::direction, "out").text(Field::session, session());
    if (info)
      e.text(Field::tls_protocol, info->protocol)
          .text(Field::tls_cipher, info->cipher)
          .flag(Field::tls_trusted, info->trusted);
    else
      e.text(Field::reason, info.error().message());
    events::tell(e);
  }
  trace_handshake(info);
  if (!info && (given_up_ || end_)) {
    if (!end_) end_ = End::closed;
  } else if (!info) {
    tls_outcome_ = TlsOutcome{.result = ipc::tls_report::ResultType::validation_failure,
                              .reason = printable(info.error().message(), 300)};
    engine_.tls_failed(handshake_failure(destination_, info.error()));
  } else {
    if (settings_.tls.log_level > 0) log::info("{}", tls::log_line(*info, "to", destination_.shown()));
    auto no = refusal(destination_, *info);
    tls_outcome_ = TlsOutcome{.reason = {}, .resumed = info->resumed};
    if (no || (!tls_->blind && falls_short_of_sts(destination_, *info))) {
      tls_outcome_->result = refused_as(destination_, *info);
      tls_outcome_->reason = printable(info->why_not, 300);
    }
    if (no)
      engine_.tls_failed(*std::move(no));
    else if (!settings_.wrapped)
      engine_.tls_started(progress_);
  }
}

const std::string& Connection::own_address() const {
  if (!own_address_.empty() || !stream_ || destination_.address.empty() || !stream_->is_open()) return own_address_;
  if (through_.proxy != 0) return own_address_ = through_.address;
  if (auto own = async::local_address(stream_->fd())) own_address_ = std::move(own->host);
  return own_address_;
}

/// Passes on the remaining lines that have arrived, without a wait for each.
void Connection::take_lines() {
  for (int i = 0; i < 1000 && !engine_.ended() && !engine_.handshake_due(); ++i) {
    const std::string_view text = stream_->buffered();
    const auto lf = text.substr(0, kMaxReplyLine).find('\n');
    if (lf == std::string_view::npos) return;
    std::string_view line = text.substr(0, lf);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line);
    stream_->consume(lf + 1);
  }
}

/// For a peer that gives a reason and hangs up while we write: our write fails first, and the peer's last lines are
/// still in the socket.
void Connection::salvage_lines() {
  std::string text(stream_->buffered());
  char more[4096];
  for (int i = 0; i < 16 && !engine_.encrypted(); ++i) {
    const ssize_t n = ::recv(stream_->fd(), more, sizeof more, MSG_DONTWAIT);
    if (n <= 0) break;
    text.append(more, static_cast<std::size_t>(n));
  }
  std::size_t at = 0;
  for (std::size_t lf; !engine_.ended() && (lf = text.find('\n', at)) != std::string::npos; at = lf + 1) {
    std::string_view line(text.data() + at, lf - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    on_line(line.substr(0, kMaxReplyLine), progress_);
  }
}

void Connection::pump() {
  if (!stream_) return;
  while (!writer_busy_ && !end_) {
    if (stream_->queued() > async::Stream::kHighWater / 2) {
      writer_busy_ = true;
      wake_.set();
      break;
    }
    auto send = engine_.next_send(loop_.clock().now());
    if (!send) break;
    progress_ = loop_.clock().now();
    for (const Job* job : send->begun) {
      host_.stages().set(job->slot, Stage::started);
      if (job->body.eight_bit_body && !engine_.offers().eight_bit_mime && !settings_.convert_eight_bit)
        log::info("{}: 8-bit content goes as it is to {}, which does not offer 8BITMIME", job->queue_id,
                  destination_.shown());
    }
    if (transcript_ && send->response)
      transcript_->response();
    else if (transcript_)
      transcript_->commands(send->text);
    trace_sent(*send);
    stream_->write(send->text);
    if (send->job == nullptr) continue;
    const auto work = works_.at(send->job);
    const bool rewritten = settings_.rules && send->form != Form::bdat;
    if ((work->content.in_memory() && !rewritten) || work->content.size() == 0) {
      write_inline(*work, send->form);
      engine_.content_written();
    } else {
      writing_ = work;
      writing_form_ = send->form;
      writer_busy_ = true;
      wake_.set();
    }
  }
  handle_events();
  if (engine_.proof_due() && !watches_proof_ && !end_) {
    watches_proof_ = true;
    gate_.spawn("proof " + destination_.shown(), watch_proof());
  }
}

Task<void> Connection::watch_proof() {
  while (const auto due = engine_.proof_due()) {
    const auto wait = *due - loop_.clock().now();
    if (wait.count() > 0 && !co_await loop_.sleep(wait, {.deadline = kNever, .cancel = &cancel_})) break;
    engine_.on_time(loop_.clock().now());
    handle_events();
  }
  watches_proof_ = false;
}

void Connection::write_inline(Work& work, Form form) {
  host_.stages().set(work.job.slot, Stage::committed);
  engine_.mark_committed();
  if (form == Form::bdat) {
    stream_->write(work.content.memory());
    return;
  }
  mail::DataForm data(settings_.line_length_limit);
  std::vector<Bytes> pieces;
  std::string converted;
  if (form == Form::seven_bit) {
    mail::SevenBitForm seven_bit(work.job.body.eight_bit_body);
    seven_bit.feed(work.content.memory(), converted);
    seven_bit.finish(converted);
  }
  data.feed(form == Form::seven_bit ? converted : work.content.memory(), pieces);
  data.finish(pieces);
  for (const auto piece : pieces) stream_->write(as_text(piece));
  tell_broken(work, data);
}

void Connection::tell_broken(const Work& work, const mail::DataForm& data) const {
  if (data.broken() > 0)
    log::info("{}: breaking line > {} bytes with <CR><LF>SPACE: {} of them for {}", work.job.queue_id,
              settings_.line_length_limit, data.broken(), destination_.shown());
}

/// Looks up tables for each line, and lets other connections have their turns in between.
Task<void> Connection::feed_in_turns(RewrittenContent& rules, std::string_view content, std::string& out) {
  constexpr std::size_t kPiece = 1024;
  constexpr std::chrono::microseconds kTurn{300};
  auto begun = loop_.clock().now();
  while (!content.empty()) {
    rules.feed(content.substr(0, kPiece), out);
    content.remove_prefix(std::min(kPiece, content.size()));
    if (loop_.clock().now() - begun <= kTurn) continue;
    co_await loop_.yield();
    begun = loop_.clock().now();
  }
}

SteadyTime Connection::content_deadline(SteadyTime begun, std::uint64_t sent) const {
  if (!settings_.request_deadline) return loop_.now() + settings_.data_xfer_timeout;
  return begun + settings_.data_xfer_timeout + seconds(sent / settings_.min_data_rate);
}

Task<Result<void>> Connection::write_content(Work& work, Form form) {
  mail::DataForm data(settings_.line_length_limit);
  mail::SevenBitForm seven_bit(work.job.body.eight_bit_body);
  std::vector<Bytes> pieces;
  std::unique_ptr<RewrittenContent> rules;
  if (settings_.rules && form != Form::bdat)
    rules = std::make_unique<RewrittenContent>(*settings_.rules, work.job.queue_id);
  std::string buffer, changed, converted;
  const std::uint64_t size = work.content.size();
  const SteadyTime begun = loop_.now();
  for (std::uint64_t at = 0; at < size;) {
    buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kContentChunk, size - at)));
    if (auto read = work.content.read(at, buffer); !read) {
      end_ = End::content_error;
      co_return read;
    }
    at += buffer.size();
    pieces.clear();
    std::string_view piece = buffer;
    if (rules) {
      changed.clear();
      co_await feed_in_turns(*rules, buffer, changed);
      if (at == size) rules->finish(changed);
      if (!rules->failed().empty()) {
        log::warning("{}: {}", work.job.queue_id, rules->failed());
        end_ = End::content_error;
        co_return fail_errno(rules->failed(), EAGAIN);
      }
      piece = changed;
    }
    if (form == Form::seven_bit) {
      converted.clear();
      seven_bit.feed(piece, converted);
      if (at == size) seven_bit.finish(converted);
      piece = converted;
    }
    if (form == Form::bdat)
      pieces.push_back(as_bytes(piece));
    else
      data.feed(piece, pieces);
    if (at == size) {
      if (form != Form::bdat) data.finish(pieces);
      host_.stages().set(work.job.slot, Stage::committed);
      engine_.mark_committed();
    }
    const Until until{.deadline = content_deadline(begun, at), .cancel = &cancel_};
    if (auto r = co_await stream_->write_all(pieces, until); !r) {
      if (!end_) end_ = r.error().is(WaitError::timed_out) ? End::timed_out : End::closed;
      co_return r;
    }
    progress_ = loop_.now();
    if (engine_.ended()) co_return fail(WaitError::closed);
  }
  if (form != Form::bdat) tell_broken(work, data);
  co_return Result<void>{};
}

Task<void> Connection::writer() {
  for (;;) {
    if (!co_await wake_.wait({.deadline = kNever, .cancel = &cancel_})) co_return;
    wake_.reset();
    if (writing_) {
      const auto work = std::exchange(writing_, nullptr);
      auto written = co_await write_content(*work, writing_form_);
      if (!written) {
        cancel_.raise();
        co_return;
      }
      engine_.content_written();
    } else {
      const Until until{.deadline = loop_.now() + settings_.data_xfer_timeout, .cancel = &cancel_};
      if (auto r = co_await stream_->flush(until); !r) {
        if (!end_) end_ = r.error().is(WaitError::timed_out) ? End::timed_out : End::closed;
        cancel_.raise();
        co_return;
      }
      progress_ = loop_.now();
    }
    writer_busy_ = false;
    pump();
    if (engine_.ended()) cancel_.raise();
  }
}

trace::Dialogue& Connection::begin_trace(trace::Hub& hub) {
  trace_ = std::make_unique<trace::Dialogue>(hub, trace::Dialogue::Way::out,
                                             begun_ ? trace::Begin::midway : trace::Begin::start, session());
  trace_->peer(destination_.address, destination_.host);
  return *trace_;
}

void Connection::trace_sent(const Send& send) {
  auto* trace = traced();
  if (trace == nullptr) return;
  for (const Job* job : send.begun)
    trace->job_begins(
        job->queue_id, job->sender,
        job->recipients | std::views::transform([](const auto& r) -> std::string_view { return r.recipient.address; }));
  if (send.response)
    trace->response();
  else
    trace->command(send.text);
  if (send.job != nullptr) trace->content(works_.at(send.job)->content.size(), send.job->queue_id);
}

void Connection::trace_handshake(const Result<tls::SessionInfo>& info) {
  auto* trace = traced();
  if (trace == nullptr) return;
  if (!info) return trace->mark("TLS handshake failed: " + info.error().message());
  trace->mark(fmt::format("{} with cipher {} ({} bits), {}{}", info->protocol, info->cipher, info->used_bits,
                          info->trusted ? "certificate trusted" : "certificate not trusted",
                          info->resumed ? ", resumed" : ""));
}

void Connection::handle_events() {
  while (engine_.has_events()) {
    for (auto& event : engine_.take_events()) {
      if (auto* opened = std::get_if<Opened>(&event)) {
        opened_at_ = loop_.clock().wall_now();
        // The time from EHLO to its answer would include the peer's name look-up; the handshake is one round trip.
        host_.opened(*this, *opened, std::chrono::duration_cast<microseconds>(loop_.clock().now() - connect_start_),
                     connect_time_);
      } else if (auto* done = std::get_if<JobDone>(&event)) {
        const auto found = works_.find(done->job);
        PEN_CHECK(found != works_.end(), "a result for a job in hand");
        const auto work = found->second;
        works_.erase(found);
        if (auto* trace = traced()) trace->job_ends(done->job->queue_id);
        host_.done(*this, *work, *done);
      } else {
        auto& ended = std::get<Ended>(event);
        if (given_up_) ended.trouble = Trouble::none;
        if (auto* trace = traced()) trace->end(ended.trouble == Trouble::none ? "end" : ended.status.text);
        host_.closed(*this, ended);
      }
    }
  }
}

}  // namespace pen::smtp
