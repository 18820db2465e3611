#include "smtp/pipeline.h"

#include <algorithm>
#include <set>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"

namespace pen::smtp {

Pipeline::Pipeline(const Settings& settings, const Peer& peer, Ending& ending)
    : settings_(settings), peer_(peer), ending_(ending) {}

std::uint32_t Pipeline::window() const {
  if (!pipelining()) return 2;  // one in progress and the next at hand, so that it need not be fetched first
  if (!offers_.chunking || settings_.lmtp) return std::min<std::uint32_t>(4, settings_.window);
  return static_cast<std::uint32_t>(scaled(settings_.window));
}

std::uint64_t Pipeline::scaled(std::uint64_t window) const {
  const microseconds base = kWindowRoundTrip;
  const microseconds trip = std::clamp(round_trip_, base, base * kWindowGrowth);
  return window * static_cast<std::uint64_t>(trip.count()) / static_cast<std::uint64_t>(base.count());
}

std::optional<Step> Pipeline::awaiting() const {
  if (owed_.empty()) return std::nullopt;
  const Owed& front = owed_.front();
  if (writing_ != 0 && front.transaction == writing_ && (front.step == Step::end_of_data || front.step == Step::bdat))
    return Step::content;
  return front.step;
}

Transaction* Pipeline::find(std::uint64_t number) {
  if (transactions_.empty() || number < transactions_.front().number) return nullptr;
  const auto index = number - transactions_.front().number;
  return index < transactions_.size() ? &transactions_[index] : nullptr;
}

void Pipeline::owe(Step step, Transaction& t, std::uint32_t recipient) {
  owed_.push_back({step, t.number, recipient, false});
  if (step != Step::rset) ++t.owed;
}

void Pipeline::submit(const Job* job, SteadyTime now) { transactions_.emplace_back(next_number_++, job, now); }

void Pipeline::open(const Found& found, SteadyTime now) {
  offers_ = found.offers;
  refusal_ = found.refusal;
  optional_tls_ = found.optional_tls;
  opened_ = true;
  ready_at_ = now;
  events_.emplace_back(Opened{offers_, window()});
}

/// Refuses here, without a command, what cannot be sent to this peer at all.
void Pipeline::refuse_locally(Transaction& t) {
  const Job& job = *t.job;
  auto failed = [&](std::string dsn, std::string text) {
    return mail::DeliveryStatus{mail::Action::failed, std::move(dsn), std::move(text), {}, {}};
  };
  // For an extension that another host of the route may well offer.
  auto not_offered = [&](std::string dsn, std::string text) {
    if (!job.other_hosts) return failed(std::move(dsn), std::move(text));
    dsn.front() = '4';
    return mail::DeliveryStatus{mail::Action::deferred, std::move(dsn), std::move(text), {}, {}};
  };
  // The text begins as Postfix's does, because people search for it.
  auto without_smtputf8 = [&](std::string_view what) {
    return "SMTPUTF8 is required, but was not offered by host " + peer_.shown + ": " + std::string(what) +
           " is in UTF-8";
  };
  if (refusal_) {
    t.settle_rest(*refusal_);
  } else if (offers_.size_limit > 0 && job.body.size > offers_.size_limit) {
    t.settle_rest(failed("5.3.4", "message size " + std::to_string(job.body.size) + " exceeds size limit " +
                                      std::to_string(offers_.size_limit) + " of server " + peer_.shown));
  } else if (job.body_type == mail::BodyType::binary_mime && !(offers_.binary_mime && offers_.chunking)) {
    t.settle_rest(not_offered("5.6.1", "host " + peer_.shown + " does not accept binary content (BINARYMIME)"));
  } else if (!offers_.smtputf8 && !mail::all_ascii(job.sender)) {
    t.settle_rest(not_offered("5.6.7", without_smtputf8("the sender's address")));
  } else if (!offers_.smtputf8 && !settings_.utf8_header_as_is && header_needs_smtputf8(job)) {
    t.settle_rest(not_offered("5.6.7", without_smtputf8("the message header")));
  } else if (!sendable_address(job.sender)) {
    t.settle_rest(failed("5.1.7", "the sender address cannot be sent by SMTP"));
  } else {
    for (std::size_t i = 0; i < t.recipients.size(); ++i) {
      const auto& address = job.recipients[i].recipient.address;
      if (address.empty() || !sendable_address(address)) {
        t.settle(i, failed("5.1.3", "the recipient address cannot be sent by SMTP"));
      } else if (!offers_.smtputf8 && !mail::all_ascii(address)) {
        t.settle(i, not_offered("5.6.7", without_smtputf8("the recipient's address")));
      }
    }
    mind_limits(t);
  }
}

/// Leaves the recipients beyond what the peer has said that it takes (LIMITS) to another transaction, without a command
/// for each: they are put off, as its own 452 would, and marked.
void Pipeline::mind_limits(Transaction& t) {
  if (offers_.rcpt_max == 0 && offers_.rcpt_domain_max == 0) return;
  std::uint64_t kept = 0;
  std::set<std::string> domains;
  for (std::size_t i = 0; i < t.recipients.size(); ++i) {
    if (t.recipients[i].state != Recipient::State::pending) continue;
    const std::string domain = to_lower(mail::domain_part(t.job->recipients[i].recipient.address));
    const bool crowded = offers_.rcpt_max > 0 && kept == offers_.rcpt_max;
    const bool scattered =
        offers_.rcpt_domain_max > 0 && !domains.contains(domain) && domains.size() == offers_.rcpt_domain_max;
    if (crowded || scattered) {
      t.settle(i, mail::make_status(mail::Action::deferred, "4.5.3",
                                    "host " + peer_.shown + " takes no more " + (crowded ? "recipients" : "domains") +
                                        " in a message than " +
                                        std::to_string(crowded ? offers_.rcpt_max : offers_.rcpt_domain_max)));
      // One domain is learned of the host instead (domains.h), so that its next messages come in such parts.
      t.recipients[i].rest = crowded || offers_.rcpt_domain_max > 1;
      continue;
    }
    ++kept;
    domains.insert(domain);
  }
}

bool Pipeline::may_begin(const Transaction& t) {
  if (leaving_) return false;
  if (t.number == transactions_.front().number) return true;
  if (!pipelining()) return false;
  if (in_flight_ >= scaled(settings_.window)) return false;
  return in_flight_ == 0 || in_flight_bytes_ + t.job->body.size <= window_bytes();
}

void Pipeline::begin(Transaction& t, Send& send, SteadyTime now) {
  send.begun.push_back(t.job);
  t.started = now;
  if (begun_ == 0) first_begun_at_ = now;
  t.use = ++begun_;
  t.at = settings_.send_xforward && offers_.xforward != 0 ? At::xforward : At::mail;
  const bool binary = t.job->body_type == mail::BodyType::binary_mime;
  // RFC 6152 section 3: convert the content, or return it. With BDAT the size after conversion would be needed first.
  t.to_seven_bit = settings_.convert_eight_bit && t.job->body.eight_bit_body && !binary && !offers_.eight_bit_mime;
  // With rewriting rules, too, the size is not known beforehand, nor with lines that are to be broken: only BINARYMIME
  // lifts the limit of a line (RFC 5321 section 4.5.3.1.6, RFC 3030 section 3).
  const bool too_long = settings_.line_length_limit != 0 && t.job->body.longest_line > settings_.line_length_limit;
  const bool changes = t.to_seven_bit || ((settings_.rules || too_long) && !binary);
  t.uses_bdat = offers_.chunking && (!settings_.lmtp || binary) && !changes;
  if (reset_owed_) {
    send.text += "RSET\r\n";
    owe(Step::rset, t);
  }
  reset_owed_ = true;  // from here until end-of-data the peer holds a transaction
}

/// Sends nothing more of this transaction and passes the turn to the next.
void Pipeline::skip_rest(Transaction& t) {
  t.at = At::sent;
  if (cursor_ == t.number) ++cursor_;
}

/// Sends what may be sent. True: it is the content's turn, or the transaction is sent. False: a reply must come first.
bool Pipeline::send_commands(Transaction& t, std::string& out) {
  if (t.at == At::xforward) {
    const mail::Client& client = t.job->client;
    const auto lines = mail::xforward_commands(offers_.xforward, client, t.job->queue_id, client.address.empty());
    for (; t.next_xforward < lines.size(); ++t.next_xforward) {
      if (!pipelining() && t.owed > 0) return false;
      out += lines[t.next_xforward];
      owe(Step::xforward, t);
    }
    if (!pipelining() && t.owed > 0) return false;
    t.at = At::mail;
  }
  if (t.at == At::mail) {
    append_mail(out, *t.job, offers_);
    owe(Step::mail, t);
    t.at = At::rcpt;
  }
  if (t.at == At::rcpt) {
    while (t.next_rcpt < t.recipients.size()) {
      if (!pipelining() && t.owed > 0) return false;
      if (t.mail_refused) break;
      const auto index = t.next_rcpt++;
      if (t.recipients[index].state != Recipient::State::pending) continue;
      append_rcpt(out, t.job->recipients[index].recipient, offers_);
      owe(Step::rcpt, t, static_cast<std::uint32_t>(index));
    }
    t.at = At::data;
  }
  if (t.at == At::data && t.is_probe()) {
    if (!settings_.probe_data) return end_probe(t, out);
    // A go-ahead obliges us to end the connection, so DATA is said only where somebody was accepted.
    if (t.owed > 0) return false;
    if (t.accepted == 0) return end_probe(t, out);
    out += "DATA\r\n";
    owe(Step::data, t);
    t.at = At::data_wait;
    return false;
  }
  if (t.at == At::data) {
    const bool wait = !pipelining() || (t.uses_bdat && (settings_.lmtp || t.job->body.size > settings_.eager_limit));
    if (wait && t.owed > 0) return false;
    // If that RSET were refused, the probe's recipients would get this message. (DATA waits for a reply anyhow.)
    if (t.uses_bdat && probe_resets_ > 0) return false;
    if (t.all_settled() || (t.owed == 0 && t.accepted == 0)) {
      skip_rest(t);  // sender or every recipient refused: RSET stays owed
      return true;
    }
    if (t.uses_bdat) {
      out += "BDAT ";
      out += std::to_string(t.job->body.size);
      out += " LAST\r\n";
      t.at = At::content;
    } else {
      out += "DATA\r\n";
      owe(Step::data, t);
      t.at = At::data_wait;
    }
  }
  return t.at != At::data_wait;
}

/// Sends RSET at once, so that the peer does not hold half a transaction until there is more mail for it. The reply
/// to RSET belongs to the probe: it shows that the replies before it are in step.
bool Pipeline::end_probe(Transaction& t, std::string& out) {
  if (!pipelining() && t.owed > 0) return false;
  out += "RSET\r\n";
  owed_.push_back({Step::rset, t.number, 0, true});
  ++probe_resets_;
  ++t.owed;
  reset_owed_ = false;
  skip_rest(t);
  return true;
}

void Pipeline::send_content(Transaction& t, Send& send) {
  const Step step = t.uses_bdat ? Step::bdat : Step::end_of_data;
  if (settings_.lmtp) {
    for (std::size_t i = 0; i < t.recipients.size(); ++i) {
      if (t.recipients[i].state != Recipient::State::accepted) continue;
      owe(step, t, static_cast<std::uint32_t>(i));
      ++t.final_owed;
    }
  } else {
    owe(step, t);
    t.final_owed = 1;
  }
  t.in_flight = true;
  ++in_flight_;
  in_flight_bytes_ += t.job->body.size;
  writing_ = t.number;
  // After the data the peer's buffers are empty whatever it answers (RFC 5321 section 4.1.1.4).
  // After a BDAT that may have been out of order they are in an unknown state (RFC 3030 section 2):
  // RSET unless it is known to have gone well.
  if (!t.uses_bdat) reset_owed_ = false;
  send.job = t.job;
  send.form = t.uses_bdat ? Form::bdat : t.to_seven_bit ? Form::seven_bit : Form::data;
}

std::optional<Send> Pipeline::next_send(SteadyTime now) {
  if (ending_.over || !opened_ || writing_ != 0) return std::nullopt;
  Send send;
  std::string& out = send.text;
  while (Transaction* t = find(cursor_)) {
    if (t->at == At::queued) {
      if (!may_begin(*t) || used_up()) break;
      refuse_locally(*t);
      if (t->all_settled()) {
        t->use = begun_ + 1;
        skip_rest(*t);
        report_settled(now);
        continue;
      }
      begin(*t, send, now);
    }
    if (!send_commands(*t, out)) break;
    if (t->at != At::content) {
      report_settled(now);  // without PIPELINING the next transaction begins only after this one
      continue;
    }
    if (!t->dot_only) {
      send_content(*t, send);
      return send;
    }
    out += ".\r\n";
    owe(Step::end_of_data, *t);
    t->final_owed = 1;
    skip_rest(*t);
  }
  report_settled(now);
  // What has not begun on a connection that is used up goes over another.
  const bool idle = transactions_.empty() || (used_up() && transactions_.front().at == At::queued);
  if (out.empty() && idle && owed_.empty() && (closing_ || used_up())) {
    said_quit_ = true;
    ending_.over = true;
    out = "QUIT\r\n";
  }
  if (out.empty()) return std::nullopt;
  return send;
}

void Pipeline::mark_committed() {
  if (Transaction* t = find(writing_)) t->committed = true;
}

void Pipeline::content_written() {
  if (Transaction* t = find(writing_)) {
    t->committed = true;
    t->written = true;
    skip_rest(*t);
  }
  writing_ = 0;
}

}  // namespace pen::smtp
