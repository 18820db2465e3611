#pragma once
/// Intake: the steps that every message takes before it is queued, whichever program received it.
///
/// Use:     Intake intake{.loop = …, .pool = …, .queue = …, .resolve = …, .settings = …, .next_queue_id = …};
///          Message m(intake, facts);  m.envelope().client = …;
///          m.add_recipient(…);                           // the first one gives the message its queue id
///          Body& body = m.open_body(expected_size);      // writes Received: and reads limits from settings
///          … scanner.feed(bytes, body.content()); co_await body.drain(until) …
///          Commit result = co_await m.commit(until);     // expands, completes, syncs, enqueues
/// Header:  for a local client the header is completed, and its addresses are rewritten and mapped like the
///          envelope's.
/// Checks:  header_checks and similar see the content while it arrives (checks.h); commit() carries out their actions.
/// Order:   rewriting and canonical maps, then copies (bcc), then virtual aliases; all of it once, never again on a
///          retry.
/// Source:  docs/design.md "lib/receive/intake", Postfix cleanup(8).
/// Thread:  the loop's. The pool is for files only; tables that other processes serve are searched through an Asker.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/handler_pool.h"
#include "lib/mail/envelope.h"
#include "lib/map/ask.h"
#include "lib/receive/intake/body.h"
#include "lib/receive/intake/effects.h"
#include "lib/receive/intake/held_content.h"
#include "lib/receive/intake/queue.h"
#include "lib/receive/intake/recipient_memory.h"
#include "lib/receive/resolve/resolve.h"
#include "lib/trust/signing/sealing.h"
#include "lib/trust/signing/unsigned.h"

namespace pen::intake {

/// The recipients of copies, made before virtual aliases. No report about a copy is sent (NOTIFY=NEVER).
struct Copies {
  std::string always;                    // always_bcc
  map::MapList by_sender, by_recipient;  // sender_bcc_maps, recipient_bcc_maps
  bool empty() const { return always.empty() && by_sender.empty() && by_recipient.empty(); }
};

/// For mail from outside; mail that the system makes itself gets no copies, no filter and no checks.
struct Settings {
  std::string myhostname, mail_name = "Penstock", myorigin = {};
  std::uint64_t message_size_limit = 10240000;
  unsigned hopcount_limit = 50;
  std::size_t header_field_limit = 0;  // 0: none
  Copies copies = {};
  // receive_override_options: canonical maps, virtual aliases, copies
  bool address_mappings = true;
  std::shared_ptr<const CheckTables> checks = {};  // header_checks and so on; nullptr: none
  std::size_t header_size_limit = 102400;          // how much of a field checks and mapping see
  std::string content_filter = {};                 // "transport:nexthop"; empty: none
  bool original_recipient = true;                  // enable_original_recipient
  bool show_logins = false;                        // smtpd_sasl_authenticated_header
  bool tls_required_header = true;                 // tls_required_enable: "TLS-Required: No" counts
  bool require_tls_header = false;                 // requiretls_esmtp_header: "Require-TLS-ESMTP: yes" is added, counts
  UnendedHeader unended = UnendedHeader::fix;      // non_empty_end_of_header_action
  bool replace_bare_cr = true;                     // cleanup_replace_stray_cr_lf
  std::vector<std::string> drop_fields = {};       // message_drop_headers
  bool complete_all_headers = false;               // always_add_missing_headers
  bool obsolete_from = false;                      // header_from_format = obsolete
  std::string full_name_charset = {};              // full_name_encoding_charset; empty: names stay as they are
  std::string undisclosed = {};                    // undisclosed_recipients_header, a whole field
  // Completes headers of clients that are not local (remote_header_rewrite_domain); empty: they stay unchanged.
  std::string remote_domain = {};
  bool seven_bit = false;                                // force_mime_input_conversion
  bool detect_smtputf8 = false;                          // smtputf8_autodetect_classes names this program's mail
  std::shared_ptr<const signing::Signing> signing = {};  // nullptr: this program signs nothing
  AnyHostForm::Options signed_form = {};                 // of what is signed
  std::shared_ptr<const signing::Sealing> sealing = {};  // nullptr: this program seals nothing
  std::vector<std::string> warnings = {};                // for the log, once at start
  /// How long a complete body may wait for qmgr's acknowledgement before the peer gets "try again later".
  seconds enqueue_timeout{60};
};

/// Objects that all messages of one process share. Must outlive the messages.
struct Intake {
  async::Loop& loop;
  async::HandlerPool& pool;  // for files
  Queue& queue;
  std::shared_ptr<const resolve::Resolve> resolve;
  Settings settings;
  std::function<std::string()> next_queue_id;
  /// Rewriting and aliases may have to wait for an answer. See expansion_may_wait().
  bool expansion_waits = true;
  BodyMemory bodies{};
  RecipientMemory memory{};
  signing::UnsignedMail unsigned_mail{};
  /// Called with the actions of checks, one line each, and with problems of their tables; empty: not reported.
  std::function<void(const std::string& line)> log_info = {}, log_warning = {};
  /// For all table look-ups of this program.
  map::Asker tables{loop};
};

enum class Outcome : std::uint8_t {
  ok,
  too_large,        // 552 5.3.4
  too_many_hops,    // 554 5.4.0
  too_many_fields,  // 552 5.3.4
  no_space,         // 452 4.3.1
  refused,          // by checks: text is "5.7.1 reason" or "4.7.1 reason"
  expansion_limit,  // 451 4.6.0: virtual aliases without end
  lookup_failed,    // 451 4.3.0: a table could not be read
  unavailable,      // 451 4.3.0: the queue manager
  spool_failed,     // 451 4.3.0: writing the body
  not_signed,       // 451 4.7.5: a key or a table of signatures cannot be read
};
/// For log lines.
std::string_view outcome_text(Outcome o);
struct Commit {
  Outcome outcome = Outcome::unavailable;
  std::string text;  // for the log
};
/// The outcome for a message with this body's problem(); ok: there is none.
Commit outcome_of(const Body& body);

class Message {
 public:
  /// `facts` as the client gave them; body and, where the message gets its queue id here, arrival are found on the way.
  Message(Intake& intake, mail::MessageFacts facts);

  mail::Envelope& envelope() { return envelope_; }
  /// Empty until the first recipient is added.
  const std::string& queue_id() const { return envelope_.queue_id; }
  /// Adds an accepted recipient; its address is as the client gave it.
  void add_recipient(mail::Recipient recipient);
  std::size_t recipients() const { return envelope_.recipients.size(); }
  /// Takes away the recipients, as they were added, for which the predicate holds.
  template <class Predicate>
  void remove_recipients(Predicate which) {
    std::erase_if(envelope_.recipients, which);
  }
  /// Gives the message its queue id before it has a recipient; nothing if it gets none.
  void assign_queue_id();
  /// All messages' recipients take so much memory that this message must not get more.
  bool memory_is_short() const { return memory_.short_of(); }

  /// Actions that checks asked for; commit() carries them out, but open_body() prepends fields.
  Effects& effects() { return effects_; }

  /// Content that checks refuse permanently is queued and then returned to its sender, because there is no client to
  /// tell. Call this before open_body().
  void return_refused(bool yes) { return_refused_ = yes; }
  /// For a local client: adds missing Date:, Message-ID: and From:, and completes and maps the header's addresses. For
  /// others the same happens with Settings::remote_domain, if it is set.
  void complete_header(bool yes) { complete_header_ = yes; }
  /// Overrides Settings::detect_smtputf8.
  void detect_smtputf8(bool yes) { detect_smtputf8_ = yes; }
  /// The name for a From: field that is added; without control characters. Call this before open_body().
  void full_name(std::string name) { full_name_ = std::move(name); }
  /// The submitter on this host, for Received: "from userid 1000". Call this before open_body().
  void submitted_by(std::string text) { submitted_by_ = std::move(text); }
  /// The permit of the request for this message (ipc::bounce::Notify), if it discharges a report.
  void permit(std::uint64_t permit) { permit_ = permit; }
  /// The session that it comes in, for events (events::session_text()).
  void session(std::string name) { session_ = std::move(name); }
  /// The envelope sender marks this system's own mail: it is neither rewritten nor mapped.
  void keep_sender(bool yes) { keep_sender_ = yes; }
  /// Comments about the session's TLS for Received:, lines joined by CRLF and tab. Call this before open_body().
  void trace_tls(std::string lines) { trace_tls_ = std::move(lines); }
  /// Received: says nothing of the client and its session. Call this before open_body().
  void hide_client(bool yes) { hide_client_ = yes; }
  /// The client for which the peer acts (XFORWARD). Received: names the peer, everything else this client.
  void speaks_for(mail::Client client) { speaks_for_ = std::move(client); }
  /// The system itself makes this message: no copies, no content filter, and checks only if inspected
  /// (internal_mail_filter_classes). A message that checks then refuse permanently is put on hold, because there is no
  /// client to refuse it to.
  void made_here(bool inspected = false) {
    made_here_ = true;
    inspected_ = inspected;
  }
  /// The client may have mail signed (Settings::signing), by its From: field. Mail on its way to a content filter is
  /// not: it is when it comes back. Call this before open_body().
  void may_be_signed(bool yes) { may_be_signed_ = yes; }
  /// The message is sealed (ARC) if it is not signed, as the content is at commit(). Call this after show_content() and
  /// before add_results(). One with lines that not every host takes is not: it would have to be changed before.
  void seal(signing::ToSeal how);
  /// Leaves this field out of the content and keeps its value: taken_field(). Call this before open_body(); the name
  /// must outlive the message.
  void take_field(std::string_view name) { take_fields_.push_back(name); }
  /// Leaves all fields of that name out, as those of Settings::drop_fields. Call this before open_body().
  void drop_field(std::string name) { drop_fields_.push_back(std::move(name)); }
  /// After the last byte; "": there was none.
  std::string taken_field(std::string_view name) { return body_ ? body_->content().taken_field(name) : std::string(); }
  /// The message goes to a filter and not into the queue: it gets no queue id. Call this before the first recipient.
  void unqueued(bool yes) { unqueued_ = yes; }
  /// Opens the body and puts the trace field into it. `expected`: the size that the client announced; 0: none.
  Body& open_body(std::uint64_t expected);
  /// How many bytes of fields open_body() has put in front of the client's: those of access tables, then Received:.
  std::uint64_t bytes_in_front() const { return bytes_in_front_; }
  Body* body() { return edited_ ? edited_.get() : body_ ? &*body_ : nullptr; }

  /// After the last byte, if a filter is to see the content before commit(): ends it, so that HeldContent can read
  /// body(). Nothing is synced and nothing promised. Outcomes: as those of commit() that concern the content.
  [[gnu::noinline]] async::Task<Commit> hold_content(async::Until until);
  /// As hold_content(), but small content is not written yet, so that add_results() costs little.
  [[gnu::noinline]] async::Task<Commit> show_content(async::Until until);
  /// A part of the header to take out: bytes from the end of bytes_in_front() on.
  struct Cut {
    std::size_t at, size;
  };
  /// After show_content(): puts a field (folded, without its last CRLF; empty: none) between our fields and the
  /// client's, and takes parts of the client's out, in their order. header_size: that of the client's header, its
  /// empty line included. Header checks see the field; what they decide counts at commit(). Content in a spool file is
  /// written anew.
  [[gnu::noinline]] async::Task<Commit> add_results(std::string field, std::vector<Cut> cuts, std::size_t header_size,
                                                    async::Until until);
  /// After hold_content(): replaces the content by a header (lines of fields, without the empty line) and by `rest`,
  /// read to its end. Lines of both get CRLF; checks, completion and mapping are not done again. May be called again
  /// for the next filter; body() is the new content then. `rest` may read the present body().
  [[gnu::noinline]] async::Task<Commit> replace_content(std::string header, HeldContent rest, async::Until until);

  /// An empty body for what a filter writes in place of the present one. size_limit: 0: none.
  std::shared_ptr<Body> new_body(std::uint64_t size_limit);
  /// The log line of header and body checks for a note about this message.
  std::string noted(const Checks::Note& note) const;
  /// A filter refuses the message: "5.7.1 text". commit() treats that as it treats a refusal by checks.
  void refused_by_filter(std::string status_and_text) { filter_refusal_ = std::move(status_and_text); }

  /// Call this once, after the last byte: completes, expands, syncs and enqueues. A message to be discarded gives ok
  /// and is dropped.
  [[gnu::noinline]] async::Task<Commit> commit(async::Until until);

 private:
  [[gnu::noinline]] async::Task<Commit> expand();
  /// Puts hold and filter into the envelope. Returns the recipient that replaces all others, if there is one.
  std::optional<mail::Recipient> apply_effects();
  Checks::Reporter reporter();
  /// The address for From: of a message without one: the sender as the envelope will have it.
  std::string author() const;
  /// remote: use the remote domain in place of ours.
  HeaderMapping header_mapping(bool remote) const;
  /// Whether a body of this message may be signed, by its route.
  bool signable() const;
  AnyHostForm::Options signed_form() const;
  /// Makes the body one that is signed or sealed, if it shall be.
  void sign(Body& body) const;
  /// Logs why the message was not signed, where somebody may expect it.
  void tell_unsigned(const Body& body);
  /// Takes over the results of checks; returns an outcome if the message must not be queued.
  std::optional<Commit> settle_checks();

  Intake& intake_;
  RecipientMemory::Share memory_;
  mail::Envelope envelope_;
  std::optional<Checks> checks_;  // declared before body_, which points to it
  std::optional<Body> body_;
  std::unique_ptr<Body> edited_;  // in place of body_, once a filter has changed the content
  Effects effects_;
  std::optional<mail::Client> speaks_for_;
  std::vector<std::string_view> take_fields_;
  std::vector<std::string> drop_fields_;
  std::string trace_tls_, full_name_, submitted_by_, filter_refusal_, session_;
  bool complete_header_ = false, keep_sender_ = false, return_refused_ = false, hide_client_ = false;
  bool unqueued_ = false, made_here_ = false, inspected_ = false, may_be_signed_ = false;
  std::optional<bool> detect_smtputf8_;
  std::optional<signing::ToSeal> seal_;
  std::uint64_t permit_ = 0;
  std::uint64_t bytes_in_front_ = 0;
};

/// Whether tables used for expansion may block: canonical and virtual alias tables, and those of copies. Recipient
/// tables do not matter here.
bool expansion_may_wait(const resolve::Options& options, const Copies& copies = {});

/// Options of expand_envelope().
struct Expand {
  const Copies* copies = nullptr;      // nullptr: none
  std::vector<std::string> more = {};  // further recipients of copies
  bool keep_sender = false;            // Message::keep_sender()
  bool original_recipient = true;      // Settings::original_recipient
};
/// The pure part of commit(): rewrites envelope addresses and applies canonical maps, copies, aliases. Drops
/// duplicates (same address, original, orcpt, notify).
Commit expand_envelope(const resolve::Resolve& resolve, const Expand& how, mail::Envelope& envelope);

}  // namespace pen::intake
