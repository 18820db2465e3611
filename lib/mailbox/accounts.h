#pragma once
/// System accounts and the right to deliver as them. Blocking (name service): from handler threads.
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/mailbox/child.h"

namespace pen::mailbox {

struct Account {
  std::string name, home, shell;
  Identity identity;
};
/// nullopt: there is surely no such account. An Error: the name service cannot tell now.
Result<std::optional<Account>> find_account(const std::string& name);
Result<std::optional<Account>> find_account(uid_t uid);

/// Who the child has to become to act as `who`; empty optional: it is us already. Error text when
/// this process, not being root, cannot: an instance of an ordinary user serves that user's
/// mailboxes only.
Result<std::optional<Identity>> rights_for(const Identity& who);

}  // namespace pen::mailbox
