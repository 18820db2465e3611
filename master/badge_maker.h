#pragma once
/// Makes the badges of programs (lib/suite/ipc/badges.h).
///
/// Use:     BadgeMaker maker(BadgeMaker::new_secret());     // or that of the former master, if its programs go on
///          ipc::Badges badges = maker.badges_for(service, all, true);
/// Form:    a badge is HMAC-SHA256 of the secret over the label of the service that it is shown to, a NUL, and the name
///          of the program that shows it. So a program that was started before a reload, an upgrade or the death of
///          master has the badges that it would be given now.
/// Secret:  master's alone. Programs get badges, and no badge leads to another.
/// Pure; any thread.
#include <string>
#include <vector>

#include "lib/suite/ipc/badges.h"
#include "lib/suite/service/plan.h"

namespace pen::master {

class BadgeMaker {
 public:
  /// Printable.
  static std::string new_secret();
  explicit BadgeMaker(std::string secret) : secret_(std::move(secret)) {}
  const std::string& secret() const { return secret_; }

  /// What the program shows the service of that label (name and type). The same each time, printable.
  std::string badge(const std::string& label, const std::string& program) const;
  /// all: the services of the instance. demanded: every program that runs has badges.
  ipc::Badges badges_for(const service::Planned& service, const std::vector<service::Planned>& all,
                         bool demanded) const;

 private:
  std::string secret_;
};

}  // namespace pen::master
