begin;
insert into orders (item, qty) values ('notebook', 1) returning id;
commit;
