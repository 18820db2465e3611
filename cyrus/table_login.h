#pragma once
/// One login that a table of users decides: PLAIN (RFC 4616) and LOGIN.
///
/// Use:     TableLogin login(users, who, request);     // as Exchange (exchange.h)
/// Rules:   a name without @ gets the realm of the connection, if it has one. A client logs in for itself alone.
///          Words of LOGIN and of refusals are those of Cyrus SASL.
/// Bounds:  kMaxName, CryptHash::kMaxPassword.
/// Blocks:  for a look-up and a calculation. Thread: any, one at a time.
#include <memory>
#include <optional>
#include <string>

#include "cyrus/step.h"
#include "cyrus/users.h"
#include "lib/trust/sasl/dovecot.h"

namespace pen::cyrus {

class TableLogin final : public Login {
 public:
  static constexpr std::size_t kMaxName = 512;
  static std::vector<sasl::Mechanism> mechanisms();

  TableLogin(std::shared_ptr<const Users> users, sasl::dovecot::Application who, sasl::dovecot::Request request);
  Step start() override;
  Step respond(const std::string& bytes) override;

 private:
  Step plain(const std::string& message);
  Step word_of_login(const std::string& word);
  Step decide(const std::string& name, const std::string& password);

  std::shared_ptr<const Users> users_;
  sasl::dovecot::Application who_;
  sasl::dovecot::Request request_;
  std::optional<std::string> name_;  // that LOGIN has been told
};

}  // namespace pen::cyrus
