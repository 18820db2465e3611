/// Carries out what the scheduler decides, and tells it what the programs report.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/mail/delivery_line.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

namespace {
/// A delivery program's words for a host that cannot keep what REQUIRETLS asks for (smtp/tls.h), as the scheduler
/// remembers them. What a peer says never begins so.
bool refuses_requiretls(const mail::DeliveryStatus& status) {
  return status.text.starts_with("REQUIRETLS ") &&
         (status.dsn.ends_with(".7.30") || status.dsn.ends_with(".7.10"));
}

/// The answer to a probe that cannot be asked.
mail::DeliveryStatus asking_ends_program() {
  return mail::make_status(mail::Action::deferred, "4.3.0",
                           "given up: asking ends the delivery program");
}

/// Of an address that begins with "-".
mail::DeliveryStatus bad_syntax() {
  return mail::make_status(mail::Action::failed, "5.1.3", "bad address syntax");
}

/// "transport:nexthop" of a message that is not routed by its recipients; empty: it is.
std::string way_of(const mail::Envelope& e, const std::string& default_filter_nexthop) {
  // A refused message has error: here, and what has its transport is past the filter. A filter would only say of a probe
  // that it is one.
  if (!e.transport.empty() || e.filter.empty() || e.purpose == mail::Purpose::probe)
    return e.transport;
  const auto colon = e.filter.find(':');
  const bool has_nexthop =
      colon != std::string::npos && !trim(std::string_view(e.filter).substr(colon + 1)).empty();
  return has_nexthop ? e.filter : e.filter.substr(0, colon) + ":" + default_filter_nexthop;
}
}  // namespace

void Manager::do_actions() {
  for (;;) {
    scheduler_.take_actions(actions_);
    if (actions_.empty()) {
      if (actions_.capacity() > kKeptActions) actions_ = {};
      return;
    }
    for (auto& a : actions_) {
      std::visit([this](auto& x) { act(x); }, a);
      active_.pack();
    }
  }
}

bool Manager::may_be_option(std::string_view recipient) const {
  return !options_.allow_minus && recipient.starts_with('-');
}

void Manager::unroutable(Active& m, std::uint32_t ordinal, mail::DeliveryStatus status) {
  scheduler_.unroutable(m.number, ordinal);
  report_undeliverable(m, {ordinal}, status, "none", {});
  soften(m, status);
  if (status.action == mail::Action::failed) {
    done(m, {ordinal}, status);
  } else {
    deferred(m, {ordinal}, status);
  }
}

void Manager::act(const RouteRecipient& a) {
  Active& m = active_.at(a.message);
  if (may_be_option(m.envelope().recipients[a.ordinal].address))
    return unroutable(m, a.ordinal, bad_syntax());
  const std::string way = way_of(m.envelope(), options_.default_filter_nexthop);
  // What is known of a domain holds for mail that asks nothing special of TLS, and has no way of its own.
  if (known_routes_ < kKnownRoutes && m.envelope().requiretls == mail::RequireTls::unspecified &&
      way.empty())
    if (const auto* known =
            routes_.find(m.envelope().recipients[a.ordinal].address, clock_.now())) {
      ++known_routes_;
      return scheduler_.routed(a.message, a.ordinal, *known);
    }
  const std::uint64_t request = next_request_++;
  routes_asked_[request] = {a.message, a.ordinal};
  ports_.route({.request = request,
                .recipient = m.envelope().recipients[a.ordinal].address,
                .sender = m.envelope().sender,
                .requiretls = m.envelope().requiretls,
                .transport = way,
                .flushed = scheduler_.deferral_overridden(a.message)});
}

void Manager::act(const OpenConnection& a) {
  if (a.session_class) {
    session_asked_.emplace(a.connection, a);
    ports_.ask_session(a.connection, *a.session_class, a.destination);
    return;
  }
  ports_.open_connection(a.destination.transport,
                         {.connection = a.connection,
                          .destination = a.destination,
                          .nexthop = a.nexthop,
                          .step_by_step = a.step_by_step,
                          .clear_text = a.clear_text},
                         a.key, a.limit);
}

void Manager::act(const CloseConnection& a) {
  if (session_asked_.erase(a.connection) > 0) {
    ports_.release_session(a.connection);
  } else {
    ports_.close_connection(a.transport, a.connection);
  }
}

void Manager::session_answer(ConnectionNumber connection, bool granted) {
  const auto at = session_asked_.find(connection);
  if (at == session_asked_.end()) return;
  const Turn turn(turns_);
  OpenConnection open = std::move(at->second);
  session_asked_.erase(at);
  if (granted) {
    scheduler_.session_granted(connection);
    open.session_class.reset();
    act(open);
  } else {
    scheduler_.session_refused(connection);
  }
}

void Manager::session_room(std::uint32_t session_class) {
  const Turn turn(turns_);
  scheduler_.session_room(session_class);
}

bool Manager::yield_session(std::uint32_t session_class) {
  const Turn turn(turns_);
  return scheduler_.yield_session(session_class);
}

void Manager::act(HandJob& a) {
  Active& m = active_.at(a.message);
  ipc::delivery::Job job;
  job.job = a.job;
  job.connection = a.connection;
  job.queue_id = m.id();
  job.arrival = m.envelope().arrival;
  job.active = m.active;
  job.sender = m.envelope().sender;
  job.nexthop = std::move(a.nexthop);
  const auto& rewritten = m.seldom().rewritten;
  job.recipients.reserve(a.ordinals.size());
  for (const std::uint32_t ordinal : a.ordinals) {
    auto& r = job.recipients.emplace_back();
    r.ordinal = ordinal;
    r.recipient = m.envelope().recipients[ordinal];
    if (auto it = rewritten.find(ordinal); it != rewritten.end()) {
      if (r.recipient.original.empty()) r.recipient.original = r.recipient.address;
      r.recipient.address = it->second;
    }
  }
  job.envid = m.envelope().envid;
  job.ret = m.envelope().ret;
  job.body_type = m.envelope().body_type;
  job.smtputf8 = m.envelope().smtputf8;
  job.requiretls = m.envelope().requiretls;
  job.client = m.envelope().client;
  job.soft_refusals = options_.soft_bounce;
  job.purpose = m.envelope().purpose;
  job.other_hosts = a.other_hosts;
  job.body = m.envelope().body;
  std::string reread;
  async::Fd fd;
  if (m.spool_file != 0) {
    auto opened = ports_.open_body(m.spool_file, m.id());
    if (!opened) {
      log::error("{}: cannot open the message's content: {}", m.id(), opened.error().message());
      deferred(m, a.ordinals,
               {mail::Action::deferred, "4.3.0", "cannot open the message's content", {}, {}});
      scheduler_.job_done(a.job, microseconds(0), JobEnd::own_fault);
      return;
    }
    fd = std::move(*opened);
    job.body_offset = m.spool_offset;
  } else if (m.body_kept) {
    job.inline_body = m.body;
  } else {
    auto body = active_.body_of(m);
    if (!body) {
      deferred(m, a.ordinals,
               {mail::Action::deferred, "4.3.0", "cannot read the message's content", {}, {}});
      scheduler_.job_done(a.job, microseconds(0), JobEnd::own_fault);
      return;
    }
    reread = *std::move(body);
    job.inline_body = reread;
  }
  jobs_[a.job] = {a.message, std::move(a.ordinals)};
  ports_.hand_job(a.transport, job, std::move(fd));
}

void Manager::act(const DeferRecipients& a) {
  jobs_.erase(a.job);
  Active& m = active_.at(a.message);
  if (a.withdrawn && m.parked) {  // nothing happened to them
    PEN_CHECK(m.outstanding >= a.ordinals.size());
    m.outstanding -= a.ordinals.size();
    to_conclude_.push_back(m.number);
    return;
  }
  const bool open = m.order == Active::Order::none;
  if (a.withdrawn && open && m.envelope().purpose == mail::Purpose::probe) {
    report_undeliverable(m, a.ordinals, asking_ends_program(), a.relay, {});
    deferred(m, a.ordinals, asking_ends_program());
    return;
  }
  // RFC 8689 section 4.2.1: where no host offers what the sender requires, the mail goes back. The destination is of such
  // mail only (ipc::Destination::requiretls), so its last trouble is this message's too.
  if (m.envelope().requiretls == mail::RequireTls::yes && refuses_requiretls(a.status) &&
      !options_.soft_bounce) {
    mail::DeliveryStatus status = a.status;
    status.action = mail::Action::failed;
    status.dsn[0] = '5';
    if (open) report_undeliverable(m, a.ordinals, status, a.relay, {});
    done(m, a.ordinals, status);
    return;
  }
  if (open) report_undeliverable(m, a.ordinals, a.status, a.relay, {});
  deferred(m, a.ordinals, a.status);
}

std::uint64_t Manager::look_up(const std::string& recipient, const std::string& sender,
                               LookedUp then) {
  const Turn turn(turns_);
  const std::uint64_t request = next_request_++;
  looked_up_[request] = std::move(then);
  ports_.route({.request = request, .recipient = recipient, .sender = sender, .flushed = true});
  return request;
}

void Manager::routed(ipc::route::Routed& answer) {
  const Turn turn(turns_);
  if (const auto tool = looked_up_.find(answer.request); tool != looked_up_.end()) {
    const LookedUp then = std::move(tool->second);
    looked_up_.erase(tool);
    then(&answer);
    return;
  }
  const auto it = routes_asked_.find(answer.request);
  if (it == routes_asked_.end()) return;  // asked again meanwhile
  const auto [number, ordinal] = it->second;
  routes_asked_.erase(it);
  route_deaths_.erase({number, ordinal});
  Active& m = active_.at(number);
  if (auto* resolved = std::get_if<ipc::route::Resolved>(&answer.answer)) {
    if (may_be_option(resolved->recipient)) return unroutable(m, ordinal, bad_syntax());
    if (!resolved->recipient.empty() &&
        resolved->recipient != m.envelope().recipients[ordinal].address) {
      m.rare().rewritten[ordinal] = resolved->recipient;
    }
    if (resolved->recipient.empty()) resolved->recipient = m.envelope().recipients[ordinal].address;
    routes_.add(m.envelope().recipients[ordinal].address, *resolved, clock_.now());
    scheduler_.routed(number, ordinal, *resolved);
    return;
  }
  unroutable(m, ordinal, std::get<ipc::route::Unroutable>(answer.answer).status);
}

void Manager::router_lost(std::uint64_t last_sent) {
  const Turn turn(turns_);
  routes_.clear();
  while (!looked_up_.empty() && looked_up_.begin()->first <= last_sent) {
    const LookedUp then = std::move(looked_up_.begin()->second);
    looked_up_.erase(looked_up_.begin());
    then(nullptr);
  }
  std::vector<std::pair<std::uint64_t, RouteAsked>> lost;
  for (const auto& asked : routes_asked_) {
    if (asked.first <= last_sent) lost.emplace_back(asked);
  }
  std::sort(lost.begin(), lost.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& asked : lost) routes_asked_.erase(asked.first);
  for (const auto& [request, asked] : lost) {
    const std::uint8_t deaths = ++route_deaths_[{asked.message, asked.ordinal}];
    if (deaths >= kDeathsHeld) {
      route_deaths_.erase({asked.message, asked.ordinal});
      Active& m = active_.at(asked.message);
      log::error("{}: looking up <{}> ended trivial-rewrite {} times; it is asked no more", m.id(),
                 m.envelope().recipients[asked.ordinal].address, deaths);
      scheduler_.unroutable(asked.message, asked.ordinal);
      if (m.envelope().purpose == mail::Purpose::probe) {
        const auto status = mail::make_status(mail::Action::deferred, "4.3.0",
                                              "given up: the look-up ends its program");
        report_undeliverable(m, {asked.ordinal}, status, "none", {});
        deferred(m, {asked.ordinal}, status);
        continue;
      }
      deferred(m, {asked.ordinal},
               {mail::Action::deferred, "4.3.0", "held: look-up ends its program", {}, {}});
      give_order(m, Active::Order::hold, {});
    } else {
      scheduler_.route_lost(asked.message, asked.ordinal, deaths >= kDeathsAlone);
    }
  }
}

void Manager::connection_opened(ConnectionNumber connection,
                                const ipc::delivery::Features& features) {
  const Turn turn(turns_);
  scheduler_.opened(connection, features);
}

void Manager::connection_closed(const ipc::delivery::ConnectionClosed& closed) {
  const Turn turn(turns_);
  for (const auto job : closed.unstarted) jobs_.erase(job);
  if (closed.out_of_step) scheduler_.out_of_step(closed.connection);
  scheduler_.closed(closed.connection, closed.opened, closed.trouble, closed.status,
                    closed.unstarted);
}

void Manager::job_survived_death(JobNumber job) {
  const Turn turn(turns_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  ports_.readers_lost();
  Active& m = active_.at(it->second.message);
  std::uint8_t most = 0;
  for (const std::uint32_t ordinal : it->second.ordinals)
    most = std::max(most, ++m.rare().deaths[ordinal]);
  if (most == kDeathsAlone) scheduler_.isolate(job);
  if (most < kDeathsHeld || m.order != Active::Order::none) return;
  if (m.envelope().purpose == mail::Purpose::probe) {
    log::error("{}: its delivery program ended {} times with it in hand; it is asked no more",
               m.id(), most);
    // The job itself comes back by DeferRecipients.
    const Ordinals back = scheduler_.withdraw(m.number);
    if (back.empty()) return;
    report_undeliverable(m, back, asking_ends_program(), "none", {});
    deferred(m, back, asking_ends_program());
  } else {
    log::error("{}: its delivery program ended {} times with it in hand; message placed on hold",
               m.id(), most);
    give_order(m, Active::Order::hold, {});
  }
}

void Manager::job_result(ipc::delivery::JobResult& result) {
  const Turn turn(turns_);
  const auto it = jobs_.find(result.job);
  if (it == jobs_.end()) return;
  const JobInHand job = std::move(it->second);
  jobs_.erase(it);
  Active& m = active_.at(job.message);
  Ordinals left = job.ordinals;
  JobEnd end = result.own_fault   ? JobEnd::own_fault
               : result.cut_short ? JobEnd::cut_short
                                  : JobEnd::put_off;
  for (auto& r : result.results) {
    Ordinals mine;
    for (const std::uint32_t ordinal : r.ordinals) {
      const auto at = std::find(left.begin(), left.end(), ordinal);
      if (at == left.end()) continue;  // not of this job, or named twice: the first word stands
      left.erase(at);
      if (!m.seldom().deaths.empty()) m.rare().deaths.erase(ordinal);
      mine.push_back(ordinal);
    }
    if (mine.empty()) continue;
    if (end == JobEnd::put_off && (r.status.action != mail::Action::deferred || r.one_domain))
      end = JobEnd::served;
    soften(m, r.status);
    if ((r.try_next_host || r.one_domain) && r.status.action == mail::Action::deferred &&
        m.order == Active::Order::none) {
      if (r.one_domain)
        scheduler_.one_domain_only(result.job, mine, r.status);
      else
        scheduler_.try_next_host(result.job, mine, r.status);
      continue;
    }
    if (r.status.action == mail::Action::deferred) {
      deferred(m, mine, r.status);
    } else {
      done(m, mine, r.status);
    }
  }
  if (!left.empty()) {
    log::warning("{}: a delivery program reported no result for {} recipients", m.id(),
                 left.size());
    deferred(m, left,
             {mail::Action::deferred, "4.3.0", "the delivery program reported no result", {}, {}});
  }
  scheduler_.job_done(result.job, result.service_time, end);
}

/// soft_bounce: what a program or the routing refused waits for another try. Of a probe there is none.
void Manager::soften(const Active& m, mail::DeliveryStatus& status) const {
  if (!options_.soft_bounce || status.action != mail::Action::failed ||
      m.envelope().purpose == mail::Purpose::probe)
    return;
  status.action = mail::Action::deferred;
  if (!status.dsn.empty()) status.dsn[0] = '4';
}

void Manager::transport_up(const std::string& transport, bool up) {
  const Turn turn(turns_);
  scheduler_.transport_up(transport, up);
}

void Manager::transport_failed(const std::string& transport, const std::string& why) {
  const Turn turn(turns_);
  if (draining_) return;
  scheduler_.transport_failed(transport, {mail::Action::deferred, "4.3.0", why, {}, {}});
}

void Manager::report_undeliverable(Active& m, const Ordinals& ordinals,
                                   const mail::DeliveryStatus& status, std::string_view relay,
                                   std::string_view) {
  const mail::Delays delays = mail::delays_between(m.envelope().arrival, m.active, now(), now());
  for (const std::uint32_t ordinal : ordinals) {
    log::info("{}",
              mail::delivery_line(m.id(), m.envelope().recipients[ordinal],
                                  relay.empty() ? "none" : relay, 1, delays, status,
                                  mail::wording_of(m.envelope().purpose, options_.soft_bounce)));
  }
}

}  // namespace pen::qmgr
