#include "qmgr/jobs.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/mail/logged.h"
#include "lib/mail/verp.h"
#include "lib/suite/suppression/fault.h"
#include "qmgr/egress.h"

namespace pen::qmgr {

namespace {
/// A delivery program's words for a host that cannot keep what REQUIRETLS asks for (lib/meaning/smtp/tls.h), as the
/// scheduler remembers them. What a peer says never begins so.
bool refuses_requiretls(const mail::DeliveryStatus& status) {
  return status.text.starts_with("REQUIRETLS ") && (status.dsn.ends_with(".7.30") || status.dsn.ends_with(".7.10"));
}

std::string where_of(const HandJob& a, const ipc::delivery::Job& job) { return a.transport + ":" + job.nexthop; }

/// The answer to a probe that cannot be asked.
mail::DeliveryStatus asking_ends_program() {
  return mail::make_status(mail::Action::deferred, "4.3.0", "given up: asking ends the delivery program");
}
}  // namespace

void Jobs::set_sender(ipc::delivery::Job& job, const Active& m, bool rewritten) {
  std::string sender = std::move(job.sender);
  if (rewritten)
    job.sender = m.seldom().rewritten_sender;
  else
    job.sender = mail::verp_sender(sender, job.verp, job.recipients.front().recipient.shown_original());
  job.other_sender = job.sender != sender;
  job.verp.clear();  // for whatever is made of it: it is done
}

ipc::delivery::Job Jobs::job_of(const Active& m, HandJob& a) const {
  ipc::delivery::Job job;
  job.job = a.job;
  job.connection = a.connection;
  job.queue_id = m.id();
  job.facts() = m.envelope().facts();
  job.active = m.active;
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
  if (a.rewritten || !job.verp.empty()) set_sender(job, m, a.rewritten);
  job.soft_refusals = around_.options.is_soft(a.transport);
  job.other_hosts = a.other_hosts;
  job.shaped = a.shaped;
  job.provider = std::move(a.provider);
  job.attempt = m.attempt();
  return job;
}

void Jobs::cannot_hand(Active& m, const HandJob& a, std::string_view why) {
  rounds_.deferred(m, a.ordinals, mail::make_status(mail::Action::deferred, "4.3.0", std::string(why)));
  around_.scheduler.job_done(a.job, microseconds(0), JobEnd::own_fault);
}

void Jobs::hand(HandJob& a) {
  Active& m = active_.at(a.message);
  ipc::delivery::Job job = job_of(m, a);
  std::string reread;
  Fd fd;
  if (m.spool_file != 0) {
    auto opened = around_.ports.open_body(m.spool_file, m.id());
    if (!opened) {
      log::error("{}: cannot open the message's content: {}", m.id(), opened.error().message());
      return cannot_hand(m, a, "cannot open the message's content");
    }
    fd = std::move(*opened);
    job.body_offset = m.spool_offset;
  } else if (m.body_kept) {
    job.inline_body = m.body;
  } else {
    auto body = active_.body_of(m);
    if (!body) return cannot_hand(m, a, "cannot read the message's content");
    reread = *std::move(body);
    job.inline_body = reread;
  }
  if (around_.watched()) rounds_.tell(m, a.ordinals, {.step = ipc::queue::Step::handed, .where = where_of(a, job)});
  InHand& in_hand = jobs_[a.job] = {a.message, std::move(a.ordinals), job.soft_refusals};
  // What a filter says is no word of the recipient's host.
  const mail::Envelope& e = m.envelope();
  in_hand.suppression = around_.options.suppression && e.transport.empty() && e.filter.empty() &&
                        around_.options.suppression(a.transport);
  if (around_.options.egress) in_hand.group = Egress::group_of(around_.scheduler.provider_of(a.job), job.nexthop);
  around_.ports.hand_job(a.transport, job, std::move(fd));
}

void Jobs::deferred(const DeferRecipients& a) {
  jobs_.erase(a.job);
  Active& m = active_.at(a.message);
  if (a.withdrawn && m.parked) return rounds_.untried(m, a.ordinals);
  const bool open = m.order == Active::Order::none;
  if (a.withdrawn && open && mail::is_probe(m.envelope().purpose)) {
    rounds_.log_undelivered(m, a.ordinals, asking_ends_program(), a.relay);
    rounds_.deferred(m, a.ordinals, asking_ends_program());
    return;
  }
  // RFC 8689 section 4.2.1: where no host offers what the sender requires, the mail goes back. The destination is of
  // such mail only (ipc::Destination::requiretls), so its last trouble is this message's too.
  if (m.envelope().requiretls == mail::RequireTls::yes && refuses_requiretls(a.status) &&
      !around_.options.soft_bounce) {
    mail::DeliveryStatus status = a.status;
    status.action = mail::Action::failed;
    status.dsn[0] = '5';
    if (open) rounds_.log_undelivered(m, a.ordinals, status, a.relay);
    rounds_.done(m, a.ordinals, status);
    return;
  }
  if (open) rounds_.log_undelivered(m, a.ordinals, a.status, a.relay);
  rounds_.deferred(m, a.ordinals, a.status);
}

void Jobs::connection_closed(const ipc::delivery::ConnectionClosed& closed) {
  for (const auto job : closed.unstarted) jobs_.erase(job);
  if (closed.trouble == ipc::delivery::Trouble::source && around_.options.egress) {
    const std::string source = around_.scheduler.source_of(closed.connection);
    around_.options.egress->failed(source, closed.status.text, around_.now());
    around_.scheduler.closed(closed.connection, closed.opened, closed.trouble, closed.status, closed.unstarted);
    around_.scheduler.reroute_source(source);
    return;
  }
  if (closed.out_of_step) around_.scheduler.out_of_step(closed.connection);
  const std::string source = around_.scheduler.source_of(closed.connection);
  const auto block =
      around_.scheduler.closed(closed.connection, closed.opened, closed.trouble, closed.status, closed.unstarted);
  if (!block || !around_.options.egress) return;
  const WallTime now = around_.now();
  around_.options.egress->block(source, Egress::group_of(block->provider, block->nexthop), now, now + block->time,
                                closed.status.text);
}

void Jobs::survived_death(JobNumber job) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  Active& m = active_.at(it->second.message);
  std::uint8_t most = 0;
  for (const std::uint32_t ordinal : it->second.ordinals) most = std::max(most, ++m.rare().deaths[ordinal]);
  if (most == kDeathsAlone) around_.scheduler.isolate(job);
  if (most < kDeathsHeld || m.order != Active::Order::none) return;
  if (mail::is_probe(m.envelope().purpose)) {
    log::error("{}: its delivery program ended {} times with it in hand; it is asked no more", m.id(), most);
    // The job itself comes back by DeferRecipients.
    const Ordinals back = around_.scheduler.withdraw(m.number);
    if (back.empty()) return;
    rounds_.log_undelivered(m, back, asking_ends_program());
    rounds_.deferred(m, back, asking_ends_program());
  } else {
    log::error("{}: its delivery program ended {} times with it in hand; message placed on hold", m.id(), most);
    rounds_.end_by_order(m, Active::Order::hold);
  }
}

void Jobs::learn_of_source(const InHand& job, const ipc::delivery::JobResult& result) const {
  const std::string& source = around_.scheduler.source_of(result.connection);
  if (source.empty()) return;
  std::size_t taken = 0;
  for (const auto& r : result.results) {
    const bool refused = r.status.action == mail::Action::deferred || r.status.action == mail::Action::failed;
    if (!refused) taken += std::min(r.ordinals.size(), job.ordinals.size());
  }
  Egress& egress = *around_.options.egress;
  egress.works(source);
  egress.accepted(source, job.group, std::min(taken, job.ordinals.size()), around_.now());
}

seconds Jobs::complain(const Active& m, JobNumber job, const Ordinals& mine, mail::DeliveryStatus& status) {
  if (mail::is_probe(m.envelope().purpose)) return seconds(0);  // an answer about the recipient is all that it asks for
  const auto& rewritten = m.seldom().rewritten;
  const auto other = rewritten.find(mine.front());
  const mail::Recipient& first = m.envelope().recipients[mine.front()];
  const std::string& recipient = other != rewritten.end() ? other->second : first.address;
  const ComplaintVerdict verdict = around_.scheduler.complained(
      job, {.recipient = recipient, .original = first.address, .sender = m.envelope().sender}, status);
  if (!verdict.put_off || status.action != mail::Action::failed) return verdict.blocked;
  // No word about the recipient or the message: they wait, and no failure is reported.
  log::info("{}: to=<{}>, put off instead of returned, for the complaint is of a {}: {}", m.id(),
            mail::logged(recipient), shaping::word(verdict.cls), status.text);
  status.action = mail::Action::deferred;
  if (!status.dsn.empty()) status.dsn[0] = '4';
  return verdict.blocked;
}

void Jobs::result(ipc::delivery::JobResult& result) {
  const auto it = jobs_.find(result.job);
  if (it == jobs_.end()) return;
  const InHand job = std::move(it->second);
  jobs_.erase(it);
  if (around_.options.egress) learn_of_source(job, result);
  Active& m = active_.at(job.message);
  Ordinals left = job.ordinals;
  seconds blocked{0};
  std::string why;
  JobEnd end = result.own_fault ? JobEnd::own_fault : result.cut_short ? JobEnd::cut_short : JobEnd::put_off;
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
    const bool rest = result.is_rest(mine.front());
    if (end == JobEnd::put_off && (r.status.action != mail::Action::deferred || r.one_domain || rest))
      end = JobEnd::served;
    if (!rest && (r.status.action == mail::Action::deferred || r.status.action == mail::Action::failed))
      if (const seconds pause = complain(m, result.job, mine, r.status); pause > blocked) {
        blocked = pause;
        why = r.status.text;
      }
    rounds_.soften(m, r.status, job.soft);
    if ((r.try_next_host || r.one_domain || rest) && r.status.action == mail::Action::deferred &&
        m.order == Active::Order::none) {
      if (rest)
        around_.scheduler.rest_at_once(result.job, mine, r.status);
      else if (r.one_domain)
        around_.scheduler.one_domain_only(result.job, mine, r.status);
      else
        around_.scheduler.try_next_host(result.job, mine, r.status);
      continue;
    }
    if (r.status.action == mail::Action::deferred) {
      rounds_.deferred(m, mine, r.status);
    } else {
      if (job.suppression && r.status.action == mail::Action::failed) tell_suppression(m, mine, r.status);
      rounds_.done(m, mine, r.status);
    }
  }
  if (!left.empty()) {
    log::warning("{}: a delivery program reported no result for {} recipients", m.id(), left.size());
    rounds_.deferred(m, left,
                     mail::make_status(mail::Action::deferred, "4.3.0", "the delivery program reported no result"));
  }
  if (blocked.count() > 0 && around_.options.egress) {
    // What waits for this receiver goes from the other sources of its pool: before the end of this job would have it
    // put off.
    const std::string source = around_.scheduler.source_of(result.connection);
    const WallTime now = around_.now();
    if (around_.options.egress->block(source, job.group, now, now + blocked, why))
      around_.scheduler.reroute_source(source);
  }
  around_.scheduler.job_done(result.job, result.service_time, end);
}

void Jobs::tell_suppression(const Active& m, const Ordinals& mine, const mail::DeliveryStatus& status) const {
  if (mail::is_probe(m.envelope().purpose) || status.remote_mta.empty()) return;  // no host has said it
  // Without a name it would stand on the list of all tenants.
  if (around_.options.tenants && m.envelope().tenant.empty()) return;
  const std::string_view words = mail::peers_words(status);
  const auto fault = suppression::fault_of(status.dsn, words);
  if (fault == suppression::Fault::none) return;
  for (const std::uint32_t ordinal : mine)
    around_.ports.tell_suppression({.tenant = m.envelope().tenant,
                                    .address = m.envelope().recipients[ordinal].address,
                                    .reason = ipc::suppression::Reason::bounce,
                                    .certain = fault == suppression::Fault::certain,
                                    .text = std::string(words)});
}

void Jobs::transport_failed(const std::string& transport, const std::string& why) {
  if (draining_) return;
  around_.scheduler.transport_failed(transport, mail::make_status(mail::Action::deferred, "4.3.0", why));
}

}  // namespace pen::qmgr
