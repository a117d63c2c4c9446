//! Names on demand of several sites, owners and domains, some of which want all of the hour.

use super::*;

/// The parties of an owner's names, with the only domain of the owner.
fn of_owner(site: usize, owner: usize) -> Claimant {
    Claimant {
        site,
        owner: Some(owner),
        domain: 1000 + owner,
    }
}

/// A world without names of the configuration, and with 60 orders in an hour.
fn world<'a>(has_several_sites: bool) -> SimulatedMachine<'a> {
    let mut world = SimulatedMachine::new(0, 1, always);
    world.schedule.limit_first_orders(60, has_several_sites);
    world
}

/// The number of certificates among those that `visit` has returned.
fn had(world: &SimulatedMachine<'_>, names: &[usize]) -> usize {
    names.iter().filter(|one| world.held[**one].is_some()).count()
}

fn visit(
    world: &mut SimulatedMachine<'_>,
    count: usize,
    claimant: impl Fn(usize) -> Claimant,
) -> Vec<usize> {
    (0..count).map(|number| world.visit(claimant(number))).collect()
}

#[test]
fn an_owner_of_many_folders_leaves_room_for_other_owners() {
    let mut world = world(false);
    // Each name is below a domain of its own.
    let greedy = visit(&mut world, 200, |number| Claimant { domain: number, ..of_owner(0, 1) });
    world.run(600);
    assert_eq!(had(&world, &greedy), 45, "three quarters");
    assert_eq!(world.schedule.held_back(greedy[199], world.now), Some(UsedUp::Owner));
    // Others come later, and wait for nothing but the authority.
    for owner in 2..6 {
        let small = visit(&mut world, 2, |_| of_owner(0, owner));
        world.run(60);
        assert_eq!(had(&world, &small), 2, "owner {owner}");
    }
    assert_eq!(had(&world, &greedy), 45);
    // The greedy one gets the rest as well.
    world.run(5 * HOUR);
    assert_eq!(had(&world, &greedy), 200);
}

#[test]
fn a_domain_with_many_names_leaves_half_to_other_domains() {
    let mut world = world(false);
    let greedy = visit(&mut world, 200, |_| of_domain(1));
    world.run(600);
    assert_eq!(had(&world, &greedy), 30);
    assert_eq!(world.schedule.held_back(greedy[199], world.now), Some(UsedUp::Domain));
    let second = visit(&mut world, 200, |_| of_domain(2));
    world.run(600);
    assert_eq!(had(&world, &second), 15, "half of what is left");
    let third = visit(&mut world, 5, |_| of_domain(3));
    world.run(60);
    assert_eq!(had(&world, &third), 5);
}

#[test]
fn a_site_leaves_a_quarter_to_other_sites() {
    let mut world = world(true);
    let greedy = visit(&mut world, 300, |number| Claimant { owner: None, ..of_owner(0, number) });
    world.run(600);
    assert_eq!(had(&world, &greedy), 45);
    assert_eq!(world.schedule.held_back(greedy[299], world.now), Some(UsedUp::Site));
    let other = visit(&mut world, 10, |number| of_owner(1, number));
    world.run(60);
    assert_eq!(had(&world, &other), 10);
}

#[test]
fn the_only_site_has_all_of_the_hour() {
    let mut world = world(false);
    let names = visit(&mut world, 100, of_domain);
    world.run(600);
    assert_eq!(had(&world, &names), 60);
    assert_eq!(world.schedule.held_back(names[99], world.now), Some(UsedUp::Hour));
}

#[test]
fn those_who_had_the_fewest_are_first() {
    let mut world = world(true);
    let many = visit(&mut world, 20, |_| of_owner(0, 1));
    // All wait at once: the later ones are not behind the twenty.
    let few = visit(&mut world, 1, |_| of_owner(0, 2));
    let other_site = visit(&mut world, 1, |_| of_owner(1, 3));
    world.run(1);
    let begun: Vec<usize> = world.orders.iter().map(|(_, one, _)| *one).collect();
    assert_eq!(begun, [many[0], other_site[0], few[0]], "three at a time");
}

#[test]
fn orders_on_demand_that_hang_leave_a_place_to_names_of_the_configuration() {
    let mut world = SimulatedMachine::new(2, 1, always);
    world.schedule.limit_first_orders(60, false);
    visit(&mut world, 100, of_domain);
    world.run(1);
    let begun: Vec<usize> = world.orders.iter().map(|(_, one, _)| *one).collect();
    assert_eq!(begun, [0, 1, 2], "those of the configuration first");
    world.run(ORDER + 5);
    assert!(world.orders.iter().all(|(_, one, _)| *one > 1 || world.held[*one].is_some()));
    let is_order = |step: &&(Duration, ScheduleStep)| matches!(step.1, ScheduleStep::Order { .. });
    assert_eq!(world.under_way.iter().filter(is_order).count(), MOST_ON_DEMAND);
}

#[test]
fn failed_orders_of_a_tenant_count_for_its_share() {
    let mut world = SimulatedMachine::new(0, 1, |certificate, _, _| match certificate {
        0..100 => Answer::Fails(FailureKind::Refused),
        _ => Answer::Certificate(LIFE),
    });
    world.schedule.limit_first_orders(60, false);
    visit(&mut world, 100, |_| of_owner(0, 1));
    for hour in 0..6 {
        world.run(HOUR / 2);
        let other = visit(&mut world, 3, |_| of_owner(0, 2 + hour));
        world.run(120);
        assert_eq!(had(&world, &other), 3, "hour {hour}");
        world.run(HOUR / 2);
        let orders = world.orders.iter().filter(|(_, one, _)| *one < 100);
        let since = world.now.steady.as_secs() - HOUR;
        let recent = orders.filter(|(at, ..)| *at >= since).count();
        assert!(recent <= 23, "hour {hour}: {recent} orders");
    }
}

#[test]
fn no_order_is_lost_and_no_hour_has_more_than_its_orders() {
    for seed in 0..3 {
        let mut random = Random(seed);
        let mut world = world(true);
        let mut names = Vec::new();
        for _ in 0..40 {
            let claimant = Claimant {
                site: random.below(3) as usize,
                owner: (random.below(4) > 0).then_some(random.below(3) as usize),
                domain: random.below(6) as usize,
            };
            // An owner's number is for one site, and a domain's number for one owner.
            let owner = claimant.owner.map(|owner| owner + 10 * claimant.site);
            let domain = claimant.domain + 10 * owner.map_or(100 + claimant.site, |owner| owner);
            let claimant = Claimant { owner, domain, ..claimant };
            let count = random.below(12) as usize;
            names.extend(visit(&mut world, count, |_| claimant));
            world.run(random.below(1200));
            assert!(world.recent(HOUR - 1) <= 60, "seed {seed}");
        }
        // Those that wait are asked for again.
        for _ in 0..5 {
            names.iter().for_each(|one| world.schedule.demand(*one, world.now));
            world.run(6 * HOUR);
        }
        assert_eq!(had(&world, &names), names.len(), "seed {seed}");
    }
}
