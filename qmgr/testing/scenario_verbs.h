#pragma once
/// The verbs of scenario files, in tables: name, arguments, meaning, and what each does to the world.
///
/// Use:     perform(world, statement); language_page() is tests/scenario/README.md.
/// To add:  a row in scenario_verbs.cc or scenario_expectations.cc, then `scenario_tests --page`'s target
///          scenario_page_update; a test fails while the page is stale.
#include <span>
#include <string>

#include "qmgr/testing/scenario.h"
#include "qmgr/testing/scenario_world.h"

namespace pen::qmgr::scenario {

using Verb = Row<World>;

std::span<const Verb> settings();      // set NAME …
std::span<const Verb> verbs();         // of the world, of events and of orders
std::span<const Verb> expectations();  // expect NAME …

void perform(World& world, const Statement& statement);
std::string language_page();

}  // namespace pen::qmgr::scenario
