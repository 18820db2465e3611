#pragma once
/// System accounts, and the rights to deliver as them. Blocks (name service): for handler threads.
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/send/mailbox/child.h"

namespace pen::mailbox {

struct Account {
  std::string name, home, shell;
  Identity identity;
};
/// nullopt: there is certainly no such account. An Error: the name service cannot answer now.
Result<std::optional<Account>> find_account(const std::string& name);
Result<std::optional<Account>> find_account(uid_t uid);

/// The identity that the child must take on to act as `who`; empty optional: we have it already. Returns an error text
/// when neither this process nor its helper is root, so that no identity can be changed: an ordinary user's instance
/// serves only that user's mailboxes.
Result<std::optional<Identity>> rights_for(const Identity& who);

}  // namespace pen::mailbox
