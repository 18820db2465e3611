#pragma once
/// One login, as Cyrus SASL decides it: a connection of the library's.
///
/// Use:     Exchange exchange(application, who, request);      // who: dovecot::Application of the connection
///          Step step = exchange.start();
///          while (step.kind == Step::Kind::challenge) step = exchange.respond(…);
/// Blocks:  start() and respond() may ask servers, for as long as these like: they run in threads, one at a time for an
///          exchange.
/// Errors:  are steps. What no client can cause (the library fails, a server does not answer) is temporary; an unknown
///          user looks like a wrong password.
/// Source:  RFC 4954: no data come with success, so that what a mechanism has left to say is one more challenge. No
///          security layer. Replies beside Postfix: test_cyrus.py.
/// Thread:  any, one at a time.
#include <optional>
#include <string>
#include <vector>

#include "cyrus/library.h"
#include "cyrus/step.h"
#include "lib/trust/sasl/dovecot.h"

struct sasl_conn;

namespace pen::cyrus {

class Exchange final : public Login {
 public:
  Exchange(const Application& application, sasl::dovecot::Application who, sasl::dovecot::Request request);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  Step start() override;
  Step respond(const std::string& bytes) override;
  void end() override;

 private:
  int open();
  std::optional<Step> without_name(const std::string& bytes);
  Step step(int result, const char* out, unsigned size);

  const Application& application_;
  sasl::dovecot::Application who_;
  sasl::dovecot::Request request_;
  ::sasl_conn* connection_ = nullptr;
  bool answered_ = false;  // the client said something
  int refused_ = 0;        // the library's code for its name; 0: none
};

}  // namespace pen::cyrus
