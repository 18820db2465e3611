#pragma once
/// What checks ask for beside taking or refusing a message: actions of access(5) and header_checks(5).
///
/// Use:     message.effects().merge(verdict.effects);   // Message (intake.h) carries them out when it is committed
/// Rules:   hold and discard stay once they are set; of filters and of redirections the last one counts; copies and
///          fields add up, each once (a list is asked for every recipient). A redirection is stronger than a filter,
///          discarding than all.
/// Source:  Postfix access(5), header_checks(5), cleanup(8).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace pen::intake {

struct Effects {
  bool hold = false;
  bool discard = false;  // it is acknowledged and goes nowhere
  std::string filter;    // "transport:nexthop" instead of content_filter; empty: that stands
  std::string redirect;  // an address that gets it instead of all its recipients; empty: none
  std::vector<std::string> bcc;
  std::vector<std::string> prepend;  // whole header fields without CRLF, for the top of the header

  bool none() const {
    return !hold && !discard && filter.empty() && redirect.empty() && bcc.empty() && prepend.empty();
  }
  void merge(Effects later) {
    hold = hold || later.hold;
    discard = discard || later.discard;
    if (!later.filter.empty()) filter = std::move(later.filter);
    if (!later.redirect.empty()) redirect = std::move(later.redirect);
    add(bcc, std::move(later.bcc));
    add(prepend, std::move(later.prepend));
  }

 private:
  static void add(std::vector<std::string>& all, std::vector<std::string> more) {
    for (auto& one : more)
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
  }
};

}  // namespace pen::intake
