#include "smtp/deliveries.h"

#include <algorithm>
#include <array>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/attempt.h"
#include "lib/mail/delivery_line.h"
#include "lib/map/log_level.h"
#include "lib/map/match_list.h"
#include "lib/map/status_filter.h"
#include "lib/meaning/smtp/tls.h"
#include "lib/queue/shaping/repeated.h"
#include "lib/suite/events/attempt.h"
#include "lib/suite/ipc/tls_reports.h"
#include "smtp/domains.h"
#include "smtp/logins.h"
#include "smtp/rewritten.h"

namespace pen::smtp {

using async::Task;

Deliveries::Deliveries(async::Loop& loop, Settings settings, delivery::Conversation& qmgr, ClientTls* tls,
                       std::shared_ptr<Logins> logins)
    : loop_(loop), settings_(std::move(settings)), qmgr_(qmgr), tls_(tls), logins_(std::move(logins)), gate_(loop) {
  gate_.spawn("time-outs", watch_time());
}
Deliveries::~Deliveries() = default;

void Deliveries::report_tls(std::shared_ptr<ipc::TlsReports> reports, bool skip_resumed) {
  reports_ = std::move(reports);
  skip_resumed_ = skip_resumed;
}

/// Once for each connection that wanted TLS: when it is open, or has ended without (ended is not nullptr).
void Deliveries::tell_tls(const Connection& c, const Ended* ended) {
  const auto it = connections_.find(c.id());
  if (!reports_ || it == connections_.end() || it->second.policy_domain.empty()) return;
  using enum ipc::tls_report::ResultType;
  const auto& outcome = c.tls_outcome();
  ipc::tls_report::Attempt attempt;
  if (outcome)
    attempt.result = outcome->result;
  else if (ended == nullptr || ended->trouble == Trouble::tls)
    attempt.result = starttls_not_supported;
  else
    return;  // the connection failed before it came to TLS
  if (outcome && outcome->resumed && skip_resumed_) return;
  const ipc::Destination& to = c.destination();
  attempt.domain = std::exchange(it->second.policy_domain, {});
  if (to.tls.level == ipc::TlsLevel::dane) {
    attempt.policy = ipc::tls_report::PolicyType::tlsa;
    attempt.policy_strings = to.tls.tlsa;
  } else if (to.tls.sts != ipc::StsMode::none) {
    attempt.policy = ipc::tls_report::PolicyType::sts;  // tlsrpt knows its text
  }
  if (attempt.result != success) {
    attempt.mx_host = to.host;
    attempt.receiving_ip = to.address;
    attempt.sending_ip = c.own_address();
    if (outcome) attempt.reason = outcome->reason;
  }
  reports_->tell(std::move(attempt));
}

/// The connection may have ended by itself meanwhile.
Result<void> Deliveries::close(ipc::delivery::CloseConnection message) {
  const auto it = connections_.find(message.connection);
  if (it != connections_.end() && !it->second.closed) it->second.connection->request_close();
  return {};
}

void Deliveries::drain() {
  draining_ = true;
  for (auto& [id, entry] : connections_)
    if (!entry.closed) entry.connection->request_close();
}

std::vector<std::string> Deliveries::status() const {
  std::vector<std::string> lines;
  for (const auto& [id, entry] : connections_)
    lines.push_back(entry.connection->destination().shown() + (entry.closed ? " closing" : "") + " jobs " +
                    std::to_string(entry.connection->jobs_in_hand()));
  return lines;
}

Result<std::unique_ptr<TlsPlan>> Deliveries::plan_tls(const ipc::delivery::OpenConnection& message,
                                                      Settings& settings) {
  const ipc::Destination& to = message.destination;
  const bool optional = to.tls.level == ipc::TlsLevel::may && !settings.wrapped;
  if (to.tls.level == ipc::TlsLevel::none && settings.wrapped)
    return fail(tls::TlsError::setup, "TLS from the first byte, but at level none");
  if (to.tls.level == ipc::TlsLevel::none || (optional && tls_ == nullptr)) return nullptr;
  if (optional && to.credentials.empty()) {
    const auto broken = broken_tls_.find(to.key());
    if (broken != broken_tls_.end() && broken->second <= loop_.now())
      broken_tls_.erase(broken);
    else if (message.clear_text || broken != broken_tls_.end())
      return nullptr;
  }
  if (tls_ == nullptr) return fail(tls::TlsError::setup, "TLS is not set up");
  auto plan = tls_->plan(to);
  if (!plan && optional) {
    log::warning("mail goes in clear text to {}: {}", to.shown(), plan.error().message());
    return nullptr;
  }
  if (!plan) return fail(std::move(plan).error());
  if (!settings.wrapped) settings.starttls = optional ? StartTls::if_offered : StartTls::required;
  return std::make_unique<TlsPlan>(*std::move(plan));
}

Settings Deliveries::settings_for(const ipc::delivery::OpenConnection& message) {
  Settings settings = settings_;
  if (message.step_by_step) settings.pipelining = false;
  settings.requiretls = message.destination.requiretls;
  const auto& to = message.destination;
  if (settings.discard_by_address && !to.address.empty()) {
    const auto words = settings.discard_by_address->lookup(to.address);
    if (!words)
      log::warning("{}: {}",
                   settings.lmtp ? "lmtp_discard_lhlo_keyword_address_maps" : "smtp_discard_ehlo_keyword_address_maps",
                   words.error().message());
    else if (*words)
      settings.discard_keywords = split_list(**words);
  }
  const auto named = [&](const std::shared_ptr<const map::MatchList>& list, const char* name) {
    if (!list) return false;
    const auto by_name = list->matches_host(to.host, to.address);
    const auto by_hop = list->matches_host(message.nexthop, to.address);
    if (!by_name || !by_hop) log::warning("{}: {}", name, (by_name ? by_hop : by_name).error().message());
    return by_name.value_or(false) || by_hop.value_or(false);
  };
  if (!settings.shares)
    settings.shares = named(
        settings.shared, settings.lmtp ? "lmtp_connection_cache_destinations" : "smtp_connection_cache_destinations");
  settings.trace = named(settings.traced, "debug_peer_list");
  if (settings.tls_loglevels && to.tls.level != ipc::TlsLevel::none) {
    const auto level = map::find_log_level(*settings.tls_loglevels, to.host, to.address, settings.tls_loglevel_parents,
                                           settings.tls.log_level);
    if (level)
      settings.tls.log_level = *level;
    else
      log::warning("{}: {}", settings.lmtp ? "lmtp_tls_loglevel_maps" : "smtp_tls_loglevel_maps",
                   level.error().message());
  }
  if (const auto it = misbehaved_.find(message.destination.key()); it != misbehaved_.end()) {
    if (it->second > loop_.now())
      settings.pipelining = false;
    else
      misbehaved_.erase(it);
  }
  return settings;
}

void Deliveries::turn_away(const ipc::delivery::OpenConnection& message, const Error* tls) {
  const bool no_address = message.destination.address.empty() && message.destination.unix_path.empty();
  ipc::delivery::ConnectionClosed refused;
  refused.connection = message.connection;
  refused.status = {mail::Action::deferred, "4.3.0", {}, {}, {}};
  refused.trouble = ipc::delivery::Trouble::local;
  if (draining_) {
    refused.trouble = ipc::delivery::Trouble::replaced;
    refused.status.text = "the delivery program is being replaced";
  } else if (tls != nullptr) {
    refused.status.dsn = "4.7.5";
    refused.status.text = "TLS is required, but there is a client TLS configuration problem: " + tls->message();
  } else if (no_address) {
    refused.status.text = "destination " + message.destination.shown() + " has no address";
  } else {
    refused.status.text = "too many connections in this process";
  }
  if (!draining_) {
    log::warning("{}", refused.status.text);
    const bool ours = tls != nullptr || no_address;
    tell_errors(message.destination, ours ? mail::ErrorClass::software : mail::ErrorClass::resource, nullptr,
                refused.status.text);
  }
  qmgr_.send(refused);
}

Result<void> Deliveries::open(ipc::delivery::OpenConnection message) {
  if (connections_.contains(message.connection)) return delivery::out_of_place("connection number used twice");
  Settings settings = settings_for(message);
  const bool no_address =
      message.destination.address.empty() && (message.destination.unix_path.empty() || message.through.proxy != 0);
  auto tls = plan_tls(message, settings);
  if (draining_ || connections_.size() >= kMaxConnections || no_address || !tls) {
    turn_away(message, tls ? nullptr : &tls.error());
    return {};
  }
  auto& source = message.destination.source;
  if (!message.through.helo.empty()) settings.helo_name = message.through.helo;
  if (message.through.proxy == 0 && source.empty() && !message.destination.address.empty()) {
    const bool v6 = message.destination.address.find(':') != std::string::npos;
    source = v6 ? settings.bind_address6 : settings.bind_address;
    settings.bind_optional = !source.empty() && !settings.bind_enforce;
  }
  auto& entry = connections_[message.connection];
  // Reports are for domains that mail is addressed to, not for hosts that an administrator named.
  if (reports_ && *tls != nullptr && !settings_.lmtp && message.nexthop.find_first_of("[]:/") == std::string::npos)
    entry.policy_domain = to_lower(message.nexthop);
  entry.connection = std::make_unique<Connection>(loop_, *this, message.connection, std::move(message.destination),
                                                  settings, *std::move(tls), std::move(message.through));
  gate_.spawn("connection " + entry.connection->destination().shown(), run(message.connection));
  return {};
}

/// It is gone on the wire too.
void Deliveries::forget(std::uint64_t id) {
  connections_.erase(id);
  if (idle()) qmgr_.idle();
}

Task<void> Deliveries::run(std::uint64_t id) {
  Connection& connection = *connections_.at(id).connection;
  if (!connection.destination().credentials.empty()) {
    const bool verified = connection.destination().tls.level > ipc::TlsLevel::encrypt;
    auto login = logins_ ? co_await logins_->find(connection.destination().credentials, verified)
                         : Result<Login>(fail(sasl::SaslError::bad_setting, "no password tables"));
    if (!login) {
      log::warning("{}: {}", connection.destination().shown(), login.error().message());
      tell_errors(connection.destination(), mail::ErrorClass::data, nullptr, login.error().message());
      connection.give_up(
          {mail::Action::deferred,
           "4.3.0",
           "no password to log in with at " + connection.destination().shown() + ": " + login.error().message(),
           {},
           {}});
      forget(id);
      co_return;
    }
    connection.set_login(std::make_shared<const Login>(*std::move(login)));
  }
  co_await connection.run();
  if (connection.lingers()) qmgr_.send(ipc::delivery::ConnectionGone{id});
  forget(id);
}

Task<void> Deliveries::watch_time() {
  for (;;) {
    if (!co_await loop_.sleep(milliseconds(500), {.deadline = kNever, .cancel = &gate_.cancel()})) co_return;
    for (auto& [id, entry] : connections_) entry.connection->check_time();
  }
}

Result<void> Deliveries::take(ipc::delivery::Job job, std::span<Fd> fds) {
  const auto it = connections_.find(job.connection);
  if (it == connections_.end() || it->second.closed) {
    // It crossed our ConnectionClosed on the way: it had no effect, and a second word says so.
    ipc::delivery::ConnectionClosed late;
    late.connection = job.connection;
    late.opened = true;
    late.status = mail::make_status(mail::Action::deferred, "4.4.2", "connection was already closed");
    late.unstarted.push_back(job.job);
    qmgr_.send(late);
    return {};
  }
  auto work = std::make_shared<Work>();
  auto content = delivery::take_content(job, fds);
  if (!content) return fail(std::move(content).error().within("job " + job.queue_id));
  work->content = *std::move(content);
  work->job = std::move(job);
  work->handed = loop_.clock().wall_now();
  work->notice = work->job.sender.empty() || iequals(work->job.sender, settings_.double_bounce);
  if (work->job.recipients.empty()) return delivery::out_of_place("job " + work->job.queue_id + " without recipients");
  if (settings_.rules) {
    std::vector<mail::Recipient> given;
    for (const auto& r : work->job.recipients) given.push_back(r.recipient);
    const auto mapped = map_envelope(*settings_.rules, work->job);
    if (!mapped) {
      log::warning("{}: {}", work->job.queue_id, mapped.error().message());
      it->second.failed = true;
      if (!work->notice)
        tell_errors(it->second.connection->destination(), mail::ErrorClass::data, nullptr, mapped.error().message());
      put_back(*it->second.connection, *work);
      return {};
    }
    if (*mapped) work->given = std::move(given);
  }
  it->second.connection->submit(std::move(work));
  return {};
}

/// Answered without a word to the peer: a table could not be read.
void Deliveries::put_back(Connection& c, const Work& work) {
  JobDone answer{.job = &work.job, .results = {}, .service_time = {}, .own_fault = true};
  answer.results.assign(work.job.recipients.size(),
                        mail::make_status(mail::Action::deferred, "4.3.0", "generic address table lookup problem"));
  done(c, work, answer);
}

void Deliveries::opened(Connection& c, const Opened& opened, microseconds setup, microseconds round_trip) {
  tell_tls(c, nullptr);
  ipc::delivery::ConnectionOpened message;
  message.connection = c.id();
  auto& f = message.features;
  f.pipelining = opened.offers.pipelining;
  f.chunking = opened.offers.chunking;
  // What was offered before the handshake is forgotten by then; that it was is plain.
  f.starttls = opened.offers.starttls || (c.encrypted() && !settings_.wrapped);
  if (settings_.tls.note_offer && opened.offers.starttls && !c.encrypted())
    log::info("Host offered STARTTLS: [{}]", c.destination().host);
  f.eight_bit_mime = opened.offers.eight_bit_mime;
  f.dsn = opened.offers.dsn;
  f.smtputf8 = opened.offers.smtputf8;
  f.size_limit = opened.offers.size_limit;
  f.window = opened.window;
  f.connect_time = setup;
  f.round_trip = round_trip;
  qmgr_.send(message);
}

void Deliveries::done(Connection& c, const Work& work, const JobDone& done) {
  const Job& job = work.job;
  const WallTime now = loop_.clock().wall_now();
  const auto floor = [](auto d) { return std::max(std::chrono::duration_cast<microseconds>(d), microseconds(0)); };
  mail::Delays delays;
  const WallTime begun = now - done.service_time;
  delays.before_active = floor(job.active - job.arrival);
  delays.transmission = done.service_time;
  if (done.connection_use <= 1 && work.handed <= c.opened_at()) {  // it waited for the connection
    const WallTime from = std::max(job.active, c.connect_begun());
    delays.active = floor(from - job.active);
    delays.setup = floor(begun - from);
  } else {
    delays.active = floor(begun - job.active);
  }

  ipc::delivery::JobResult result;
  result.job = job.job;
  result.connection = c.id();
  result.service_time = done.service_time;
  result.cut_short = done.cut_short;
  result.own_fault = done.own_fault;
  const std::string relay = c.destination().shown();
  const std::vector<bool> apart = want_one_domain(job, done);
  for (std::size_t i = 0; i < done.results.size(); ++i) {
    mail::DeliveryStatus status = done.results[i];
    filter(status, job.queue_id, !job.other_hosts);
    const auto& recipient = job.recipients[i];
    const auto& shown = work.given.empty() ? recipient.recipient : work.given[i];
    const bool put_off = status.action == mail::Action::deferred;
    const bool rest = put_off && !done.rest.empty() && done.rest[i];
    const bool goes_on = !rest && may_go_on(job, done, status);
    const bool one_domain = put_off && !rest && !apart.empty() && apart[i];
    if (!goes_on && !one_domain && !rest) {
      mail::count_attempt(settings_.lmtp ? metrics::Agent::lmtp : metrics::Agent::smtp, delays, status.action,
                          job.purpose);
      const auto wording =
          mail::wording_of(job.purpose, job.soft_refusals || is_put_off(job, recipient.recipient, status));
      log::info("{}",
                mail::delivery_line(job.queue_id, shown, relay, done.connection_use, delays, status, wording,
                                    job.other_sender ? std::string_view(job.sender) : std::string_view(), c.source()));
      if (events::wanted())
        events::tell_attempt({.queue_id = job.queue_id,
                              .message = job,
                              .recipient = shown,
                              .relay = relay,
                              .connection_use = done.connection_use,
                              .delays = delays,
                              .status = status,
                              .wording = wording,
                              .nexthop = job.nexthop,
                              .source_address = c.own_address(),
                              .source = c.source(),
                              .number = job.attempt,
                              .session = c.session(),
                              .tls_protocol = c.tls_facts().protocol,
                              .tls_cipher = c.tls_facts().cipher,
                              .tls_trusted = c.tls_facts().trusted});
    }
    const auto same = std::find_if(result.results.begin(), result.results.end(), [&](const auto& r) {
      return r.status == status && r.one_domain == one_domain && result.is_rest(r.ordinals.front()) == rest;
    });
    if (rest) result.rest.push_back(recipient.ordinal);
    if (same != result.results.end()) {
      same->ordinals.push_back(recipient.ordinal);
      continue;
    }
    if (goes_on || one_domain || rest) log::info("{}: {}", job.queue_id, status.text);
    result.results.push_back({{recipient.ordinal}, std::move(status), goes_on, one_domain});
  }
  qmgr_.send(result);
}

/// It is this host that does not take the mail now, and another one is asked before anything is reported.
bool Deliveries::may_go_on(const Job& job, const JobDone& done, const mail::DeliveryStatus& status) {
  return job.other_hosts && !done.own_fault &&
         (status.action == mail::Action::deferred ||
          (status.action == mail::Action::failed && job.soft_refusals && !mail::is_probe(job.purpose)));
}

/// qmgr will find the same, and have the recipient wait: nobody is to hear that it failed.
bool Deliveries::is_put_off(const Job& job, const mail::Recipient& recipient,
                            const mail::DeliveryStatus& status) const {
  if (!complaints_ || !job.shaped || status.action != mail::Action::failed || mail::is_probe(job.purpose)) return false;
  const auto reply =
      shaping::own_words(mail::peers_words(status),
                         std::array<std::string_view, 3>{recipient.address, recipient.shown_original(), job.sender});
  const shaping::Rule* const rule = complaints_->classify(complaints_->provider(job.provider), reply);
  return rule != nullptr && shaping::puts_off(rule->cls) && !(shaping::of_domain(rule->scope) && job.sender.empty());
}

void Deliveries::filter(mail::DeliveryStatus& status, std::string_view about, bool may_give_up) const {
  if (!settings_.filter || status.text.empty()) return;
  if (const auto warning = settings_.filter->apply(status, may_give_up); !warning.empty())
    log::warning("{}: {}", about, warning);
}

void Deliveries::tell_errors(const ipc::Destination& to, mail::ErrorClasses errors, const mail::Transcript* transcript,
                             const std::string& reason) {
  if (!tell_postmaster_) return;
  errors = told_lately_.tell(to.shown(), errors.among(settings_.told), loop_.now());
  if (errors.empty()) return;
  using ipc::session_errors::Role;
  ipc::session_errors::Session session;
  session.role = settings_.lmtp ? Role::lmtp_client : Role::smtp_client;
  session.peer = to.shown();
  session.classes = errors.bits();
  if (transcript != nullptr) session.transcript = transcript->text();
  session.reason = reason;
  tell_postmaster_(std::move(session));
}

void Deliveries::note_broken_tls(const Connection& c, const Ended& ended) {
  const ipc::Destination& to = c.destination();
  if (ended.trouble != Trouble::tls || to.tls.level != ipc::TlsLevel::may || !to.credentials.empty()) return;
  if (broken_tls_.size() >= kMaxMisbehaved)
    std::erase_if(broken_tls_, [&](const auto& b) { return b.second <= loop_.now(); });
  if (broken_tls_.size() < kMaxMisbehaved) broken_tls_[to.key()] = loop_.now() + kMisbehaved;
  log::info("{}: clear text for a while, because TLS fails and is not required", to.shown());
}

void Deliveries::closed(Connection& c, const Ended& ended) {
  const auto it = connections_.find(c.id());
  if (it == connections_.end() || it->second.closed) return;
  it->second.closed = true;
  tell_tls(c, &ended);
  note_broken_tls(c, ended);
  if (ended.misbehaved && misbehaved_.size() < kMaxMisbehaved) {
    misbehaved_[c.destination().key()] = loop_.now() + kMisbehaved;
    log::warning("{}: pipelining is off for this host for a while: its replies did not fit the commands",
                 c.destination().shown());
  } else if (ended.misbehaved) {
    std::erase_if(misbehaved_, [&](const auto& m) { return m.second <= loop_.now(); });
  }
  if (ended.trouble != Trouble::none) log::info("{}", ended.status.text);
  if (ended.opened && ended.trouble == Trouble::none && c.errors().empty() && !it->second.failed)
    told_lately_.forget(c.destination().shown());
  if (!c.carried_notices())
    tell_errors(c.destination(), c.errors(), c.transcript(),
                ended.trouble != Trouble::none ? ended.status.text : std::string());
  ipc::delivery::ConnectionClosed message;
  message.connection = c.id();
  message.opened = ended.opened;
  message.trouble = ended.trouble;
  // Given up because this program ends: the destination has not failed, and its jobs are the next program's.
  if (draining_ && !ended.opened && ended.trouble == Trouble::none) message.trouble = Trouble::replaced;
  message.status = ended.status;
  // The text alone, and not of mail that requires TLS: qmgr knows such a failure by its code and words.
  if (!c.destination().requiretls) {
    filter(message.status, c.destination().shown(), true);
    message.status.dsn = ended.status.dsn;
    message.status.action = ended.status.action;
  }
  message.out_of_step = ended.misbehaved;
  message.lingers = c.lingers();
  for (const Job* job : ended.unstarted) message.unstarted.push_back(job->job);
  qmgr_.send(message);
}

}  // namespace pen::smtp
