#pragma once
/// What restriction lists and replies are about: a client and, as far as they are known, a sender and a recipient.
///
/// Thread:  the loop's. The client must outlive it.
#include <memory>
#include <optional>
#include <string>

#include "smtpd/client.h"

namespace pen::smtpd {

class Authentication;

/// The subject of the lists. A pipelined batch keeps a copy for each command.
struct Subject {
  explicit Subject(const ClientFacts& facts) : client(&facts) {}
  const ClientFacts* client;
  std::optional<std::string> sender;     // of the transaction in progress
  std::optional<std::string> recipient;  // of this RCPT or VRFY
  std::size_t recipient_count = 0;       // accepted so far
  // For policy servers. The texts live as long as the transaction.
  std::string_view only_recipient;  // accepted, when content comes; empty: not exactly one
  std::string_view sasl_sender;     // AUTH= of MAIL
  std::string_view etrn_domain;
  std::uint64_t size = 0;                               // SIZE= of MAIL, at the end the real one
  bool discarded = false;                               // the message is to be dropped: nothing more can be said of it
  std::uint64_t transaction = 0;                        // a number that no other of this process has; 0: before MAIL
  std::shared_ptr<Authentication> authentication = {};  // nullptr: the client's mail is not checked
  std::string queue_id;                                 // for the log; empty: NOQUEUE
  const char* where = "RCPT";                           // the command, for the log
};

}  // namespace pen::smtpd
