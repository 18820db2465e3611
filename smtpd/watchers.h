#pragma once
/// Those who follow the dialogue of a session without taking part: the postmaster, who gets transcripts of sessions
/// with errors (notify_classes), pentrace, and the log, for clients that debug_peer_list names.
///
/// Use:     Watchers watchers(server, client);   watchers.keep_transcript();        // where notify_classes has classes
///          watchers.connected();  watchers.heard("NOOP");  watchers.said("250 2.0.0 Ok\r\n");
///          watchers.went_wrong(ErrorClass::protocol);   watchers.tell_postmaster(classes, "timeout");
/// Cost:    a null pointer looked at for each line while nobody watches.
/// Thread:  the loop's. The server and the client outlive it.
#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/mail/transcript.h"
#include "lib/suite/trace/dialogue.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class Watchers {
 public:
  Watchers(Server& server, const ClientFacts& client) : server_(server), client_(client) {}

  /// From now on the dialogue is kept for the postmaster.
  void keep_transcript();
  /// Each line is logged from now on, if debug_peer_list has the client.
  [[gnu::noinline]] async::Task<void> look_whether_to_log(const Policy& policy);

  void heard(std::string_view line) {
    if (transcript_) transcript_->command(line);
    if (auto* trace = traced()) trace->command(line);
  }
  void heard_response() {
    if (transcript_) transcript_->response();
    if (auto* trace = traced()) trace->response();
  }
  /// Lines with their CRLF.
  void said(std::string_view lines) {
    if (transcript_) transcript_->replies(lines);
    if (auto* trace = traced()) trace->reply(lines);
  }

  // What happens besides.
  [[gnu::noinline]] void connected();
  /// The client's name is known, or XCLIENT has given it another.
  [[gnu::noinline]] void client_known();
  [[gnu::noinline]] void handshake();
  /// Content came, or its end was missed.
  [[gnu::noinline]] void content(std::string_view queue_id, std::uint64_t octets);
  void queue_id(std::string_view id) {
    if (auto* trace = traced()) trace->queue_id(id);
  }
  /// why: of a session that did not end by QUIT; else empty. line: of the log.
  void disconnected(std::string_view why, std::string_view line);

  void went_wrong(mail::ErrorClasses error) {
    if (transcript_) transcript_->error(error);
  }
  /// A message was accepted. Drops the transcript with the errors in it: mail of a list nearly always has a refused
  /// recipient.
  void forget_errors() {
    if (transcript_) transcript_->clear();
  }
  /// Called between messages. Reports a transcript of more lines if it has errors, then starts a new one.
  void limit(std::uint64_t lines, mail::ErrorClasses told);
  /// Reports the transcript if it has errors of these classes. why: as of disconnected().
  void tell_postmaster(mail::ErrorClasses told, std::string_view why);

 private:
  /// The dialogue for pentrace; nullptr: nobody follows any.
  trace::Dialogue* traced() {
    if (!server_.trace || !server_.trace->on()) return nullptr;
    return trace_ && !trace_->stale() ? trace_.get() : &begin_trace();
  }
  trace::Dialogue& begin_trace();

  Server& server_;
  const ClientFacts& client_;
  std::unique_ptr<mail::Transcript> transcript_;  // nullptr: nothing is reported to the postmaster
  std::unique_ptr<trace::Dialogue> trace_;        // nullptr: nobody has followed sessions since it began
  bool begun_ = false;                            // the client has been heard or spoken to
};

}  // namespace pen::smtpd
