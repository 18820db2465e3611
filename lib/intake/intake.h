#pragma once
/// Intake: what every message goes through before it is queued, whoever received it.
///
/// Use:     Intake intake{.loop = …, .pool = …, .queue = …, .resolve = …, .settings = …, .next_queue_id = …};
///          Message m(intake, facts);  m.envelope().client = …;
///          m.add_recipient(…);                           // the first one gives the message its queue id
///          Body& body = m.open_body(expected_size);      // writes Received: and reads limits from settings
///          … scanner.feed(bytes, body.content()); co_await body.drain(until) …
///          Commit result = co_await m.commit(until);     // expands, completes, syncs, enqueues
/// Header:  for a local client it is completed, and its addresses are rewritten and mapped like those of the envelope.
/// Checks:  header_checks and their kin look at the content while it comes in (checks.h); what they ask for is carried
///          out by commit().
/// Order:   rewriting and canonical maps, then copies (bcc), then virtual aliases; all of it once, never on a retry.
/// Source:  docs/design.md "lib/intake", Postfix cleanup(8).
/// Thread:  the loop's. The pool is for files only; tables that somebody else answers for are asked through an Asker.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/async/handler_pool.h"
#include "lib/intake/body.h"
#include "lib/intake/effects.h"
#include "lib/intake/queue.h"
#include "lib/intake/recipient_memory.h"
#include "lib/mail/envelope.h"
#include "lib/map/ask.h"
#include "lib/resolve/resolve.h"

namespace pen::intake {

/// Who gets a copy, without anybody being told what becomes of it (NOTIFY=NEVER); before virtual aliases.
struct Copies {
  std::string always;                    // always_bcc
  map::MapList by_sender, by_recipient;  // sender_bcc_maps, recipient_bcc_maps
  bool empty() const { return always.empty() && by_sender.empty() && by_recipient.empty(); }
};

/// Of mail from outside; mail that the system makes itself has no copies, no filter and no checks.
struct Settings {
  std::string myhostname, mail_name = "Penstock", myorigin = {};
  std::uint64_t message_size_limit = 10240000;
  unsigned hopcount_limit = 50;
  Copies copies = {};
  // receive_override_options: canonical maps, virtual aliases, copies
  bool address_mappings = true;
  std::shared_ptr<const CheckTables> checks = {};  // header_checks and so on; nullptr: none
  std::size_t header_size_limit = 102400;          // what checks and mapping see of a field
  std::string content_filter = {};                 // "transport:nexthop"; empty: none
  bool original_recipient = true;                  // enable_original_recipient
  bool show_logins = false;                        // smtpd_sasl_authenticated_header
  bool tls_required_header = true;                 // tls_required_enable: "TLS-Required: No" counts
  bool replace_bare_cr = true;                     // cleanup_replace_stray_cr_lf
  std::vector<std::string> drop_fields = {};       // message_drop_headers
  bool complete_all_headers = false;               // always_add_missing_headers
  bool obsolete_from = false;                      // header_from_format = obsolete
  std::string undisclosed = {};                    // undisclosed_recipients_header, a whole field
  // What headers of clients that are not local are completed with (remote_header_rewrite_domain); empty: they are not.
  std::string remote_domain = {};
  bool seven_bit = false;                  // force_mime_input_conversion
  bool detect_smtputf8 = false;            // smtputf8_autodetect_classes has what this program takes in
  std::vector<std::string> warnings = {};  // to be logged once at start
  /// How long a finished body may wait for qmgr's acknowledgement before the peer is asked to come again.
  seconds enqueue_timeout{60};
};

/// Everything that messages of one process share. Must outlive them.
struct Intake {
  async::Loop& loop;
  async::HandlerPool& pool;  // for files
  Queue& queue;
  std::shared_ptr<const resolve::Resolve> resolve;
  Settings settings;
  std::function<std::string()> next_queue_id;
  /// Rewriting and aliases may have to wait for somebody's answer. See expansion_may_wait().
  bool expansion_waits = true;
  BodyMemory bodies{};
  RecipientMemory memory{};
  /// Where checks say what they do, one line each, and what is wrong with their tables; empty: nowhere.
  std::function<void(const std::string& line)> log_info = {}, log_warning = {};
  /// For whoever in this program looks into tables.
  map::Asker tables{loop};
};

enum class Outcome : std::uint8_t {
  ok,
  too_large,        // 552 5.3.4
  too_many_hops,    // 554 5.4.0
  no_space,         // 452 4.3.1
  refused,          // by checks: text is "5.7.1 why" or "4.7.1 why"
  expansion_limit,  // 554 5.4.6 or 4.6.0: virtual aliases without end
  lookup_failed,    // 451 4.3.0: a table could not be read
  unavailable,      // 451 4.3.0: the queue manager
  spool_failed,     // 451 4.3.0: writing the body
};
/// For log lines.
std::string_view outcome_text(Outcome o);
struct Commit {
  Outcome outcome = Outcome::unavailable;
  std::string text;  // for the log
};
/// What a body's problem() means for the message; ok: it has none.
Commit outcome_of(const Body& body);

class Message {
 public:
  /// `facts` as the client gave them; body and, where the message gets its queue id here, arrival are found on the way.
  Message(Intake& intake, mail::MessageFacts facts);

  mail::Envelope& envelope() { return envelope_; }
  /// Empty until the first recipient was added.
  const std::string& queue_id() const { return envelope_.queue_id; }
  /// Takes an accepted recipient: address as the client gave it.
  void add_recipient(mail::Recipient recipient);
  std::size_t recipients() const { return envelope_.recipients.size(); }
  /// The recipients of all messages take so much that this one may have no more.
  bool memory_is_short() const { return memory_.short_of(); }

  /// What checks have asked for; carried out by commit(), prepended fields by open_body().
  Effects& effects() { return effects_; }

  /// What checks refuse for good is queued for its sender to get it back, instead of being refused: there is nobody
  /// left who could be told. Before open_body().
  void return_refused(bool yes) { return_refused_ = yes; }
  /// A local client's: adds Date:, Message-ID: and From: where they lack, and completes and maps the header's
  /// addresses. Else the same is done with Settings::remote_domain, where there is one.
  void complete_header(bool yes) { complete_header_ = yes; }
  /// In place of Settings::detect_smtputf8.
  void detect_smtputf8(bool yes) { detect_smtputf8_ = yes; }
  /// The name beside the address in a From: that is added; without control characters. Before open_body().
  void full_name(std::string name) { full_name_ = std::move(name); }
  /// Who submitted it on this host, for Received: "from userid 1000". Before open_body().
  void submitted_by(std::string text) { submitted_by_ = std::move(text); }
  /// Of the request that asked for this message (ipc::bounce::Notify), when it discharges a report.
  void permit(std::uint64_t permit) { permit_ = permit; }
  /// The envelope sender is one by which this system knows its own mail: neither rewritten nor mapped.
  void keep_sender(bool yes) { keep_sender_ = yes; }
  /// Comments for Received: about the session's TLS, lines joined by CRLF and tab. Before open_body().
  void trace_tls(std::string lines) { trace_tls_ = std::move(lines); }
  /// The client that the peer speaks for (XFORWARD). Received: names the peer, all else this client.
  void speaks_for(mail::Client client) { speaks_for_ = std::move(client); }
  /// The system itself makes it: no copies, no content filter; checks only when it is inspected
  /// (internal_mail_filter_classes), and what they then refuse for good is held, for there is nobody to refuse it to.
  void made_here(bool inspected = false) {
    made_here_ = true;
    inspected_ = inspected;
  }
  /// It goes to a filter and not into the queue: it has no queue id. Before the first recipient.
  void unqueued(bool yes) { unqueued_ = yes; }
  /// Opens the body and puts the trace field into it. `expected`: the size the client announced, 0: none.
  Body& open_body(std::uint64_t expected);
  Body* body() { return body_ ? &*body_ : nullptr; }

  /// After the last byte: completes, expands, syncs and enqueues. May be called once. A message to be discarded is ok
  /// and forgotten.
  [[gnu::noinline]] async::Task<Commit> commit(async::Until until);

 private:
  [[gnu::noinline]] async::Task<Commit> expand();
  /// Puts hold and filter into the envelope. Returns who takes the place of all recipients, if anybody does.
  std::optional<mail::Recipient> apply_effects();
  Checks::Reporter reporter();
  /// remote: with the remote domain in place of ours.
  HeaderMapping header_mapping(bool remote) const;
  /// What checks have come to, taken over; an outcome when nothing is to be queued.
  std::optional<Commit> settle_checks();

  Intake& intake_;
  RecipientMemory::Share memory_;
  mail::Envelope envelope_;
  std::optional<Checks> checks_;  // before body_, which points to it
  std::optional<Body> body_;
  Effects effects_;
  std::optional<mail::Client> speaks_for_;
  std::string trace_tls_, full_name_, submitted_by_;
  bool complete_header_ = false, keep_sender_ = false, return_refused_ = false;
  bool unqueued_ = false, made_here_ = false, inspected_ = false;
  std::optional<bool> detect_smtputf8_;
  std::uint64_t permit_ = 0;
};

/// Whether the canonical and virtual alias tables of these options, or those of copies, may block (recipient tables do
/// not matter here).
bool expansion_may_wait(const resolve::Options& options, const Copies& copies = {});

/// How expand_envelope() goes about it.
struct Expand {
  const Copies* copies = nullptr;      // nullptr: none
  std::vector<std::string> more = {};  // who else gets one
  bool keep_sender = false;            // Message::keep_sender()
  bool original_recipient = true;      // Settings::original_recipient
};
/// The pure part of commit(): envelope addresses after rewriting, canonical maps, copies, aliases. Duplicates (same
/// address, original, orcpt, notify) are dropped.
Commit expand_envelope(const resolve::Resolve& resolve, const Expand& how, mail::Envelope& envelope);

}  // namespace pen::intake
