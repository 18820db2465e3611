#pragma once
/// Mail that comes back: notices about mail of ours, and feedback reports, read and reported as events.
///
/// Use:     auto found = co_await ReturnedMail::of(server, policy, client, message);   // nullptr: an ordinary message
///          auto commit = co_await (*found)->read(until);  (*found)->drop();   // before the commit
///          (*found)->tell();                                                  // when the queue has the message
/// Which:   recipients of returned_mail_recipients; addresses of VERP in domains of ours; addresses that SRS made here.
/// Bounds:  a message with more than kMostAddresses recipients is ordinary; Reader's for the content.
/// Thread:  the loop's. Server, policy and message must outlive it.
/// Source:  docs/returned-mail.md.
#include <memory>
#include <string>
#include <vector>

#include "lib/mail/returned/report.h"
#include "lib/receive/intake/intake.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class ReturnedMail {
 public:
  // Notices and reports have one recipient; a few come from lists of postmasters.
  static constexpr std::size_t kMostAddresses = 10;

  /// Errors: a table could not be read.
  static async::Task<Result<std::unique_ptr<ReturnedMail>>> of(Server& server, const Policy& policy,
                                                               const ClientFacts& client, intake::Message& message);
  /// Reads the content, which is complete. Outcomes: those of Message::show_content(), and spool_failed.
  async::Task<intake::Commit> read(async::Until until);
  /// With returned_mail_action = discard: what could be read goes no further, except to the senders that SRS leads to.
  void drop();
  /// Writes to the log, counts and emits events.
  void tell() const;
  /// Tells the suppression list of addresses that failed or complained. Asks tables for their tenants.
  async::Task<void> suppress();

 private:
  enum class Kind : std::uint8_t { listed, verp, srs };
  struct Address {
    std::string address;
    Kind kind = Kind::listed;
    // Of VERP and SRS: the sender of the mail that comes back, and its recipient (VERP).
    std::string sender, recipient;
  };
  ReturnedMail(Server& server, const Policy& policy, const ClientFacts& client, intake::Message& message);
  [[gnu::noinline]] async::Task<Result<void>> classify(std::string given);
  void tell_notice(const Address& at) const;
  void tell_feedback(const Address& at) const;
  void tell_unreadable(const Address& at) const;
  /// The sender of the mail that came back to this address.
  std::string sender_of(const Address& at) const;
  /// The recipient that a report is about, and its mail's sender; empty: not known.
  struct Complained {
    std::string from, to;
    bool by_verp = false;
  };
  Complained complained() const;
  [[gnu::noinline]] async::Task<void> suppress(ipc::suppression::Failure failure, std::string sender);

  Server& server_;
  const Policy& policy_;
  intake::Message& message_;
  std::vector<Address> addresses_;
  returned::Report report_;
  std::string client_name_, client_address_, queue_id_;
  bool null_sender_ = false;
};

}  // namespace pen::smtpd
